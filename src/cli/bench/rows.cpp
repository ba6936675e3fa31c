#include "cli/bench/rows.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

namespace rlgen::cli {
namespace {

constexpr int32_t kLargeVocabulary = 152'064;  // as the Qwen families have it

RowSpec prefill(int32_t batch) {
  return {.name = fmt::format("prefill/{}", batch), .kind = RowKind::kPrefill, .batch = batch};
}

// A step of a large batch is long, so that a few of them are enough.
RowSpec decode(int32_t batch) {
  return {.name = fmt::format("decode/{}", batch),
          .kind = RowKind::kDecode,
          .batch = batch,
          .decode = batch <= 8    ? 64
                    : batch <= 32 ? 32
                                  : 16};
}

// Prompts of a block and a token where they are not what is measured: all but the token is cached.
RowSpec recording(const char* name, int32_t batch, int32_t prompt, int32_t decode) {
  return {.name = fmt::format("recording/{}", name),
          .kind = RowKind::kRecording,
          .batch = batch,
          .prompt = prompt,
          .decode = decode};
}

RowSpec attention(int32_t thousands) {
  return {.name = fmt::format("attention/{}k", thousands),
          .kind = RowKind::kAttention,
          .context = thousands * 1024};
}

RowSpec sampling(const char* name, RowSampling kind, int32_t entries) {
  return {.name = fmt::format("sampling/{}", name),
          .kind = RowKind::kSampling,
          .batch = kSamplingBatch,
          .entries = entries,
          .sampling = kind};
}

RowSpec scheduler(const char* name, int32_t waiting) {
  return {.name = fmt::format("scheduler/{}", name),
          .kind = RowKind::kScheduler,
          .batch = 256,
          .waiting = waiting};
}

std::vector<RowSpec> make_rows() {
  using enum RowSampling;
  std::vector<RowSpec> rows = {{.name = "load", .kind = RowKind::kLoad},
                               {.name = "memory", .kind = RowKind::kMemory}};
  for (const int32_t batch : {1, 8, 64}) rows.push_back(prefill(batch));
  rows.push_back({.name = "prefill/2048", .kind = RowKind::kPrefill, .prompt = 2048});
  for (const int32_t batch : {1, 2, 4, 8, 16, 32, 64, 128}) rows.push_back(decode(batch));
  rows.push_back({.name = "mixed", .kind = RowKind::kMixed});
  rows.push_back(recording("decode-1", 1, 17, 32));
  rows.push_back(recording("decode-64", 64, 17, 16));
  rows.push_back(recording("prefill", 1, 1024, 0));
  for (const int32_t thousands : {1, 2, 4, 8, 16, 32}) rows.push_back(attention(thousands));
  rows.push_back(sampling("greedy", kGreedy, 0));
  rows.push_back(sampling("plain", kPlain, 0));
  rows.push_back(sampling("top-p", kTopP, 0));
  rows.push_back(sampling("greedy-152k", kGreedy, kLargeVocabulary));
  rows.push_back(sampling("plain-152k", kPlain, kLargeVocabulary));
  rows.push_back(sampling("top-p-152k", kTopP, kLargeVocabulary));
  rows.push_back(scheduler("256", 0));
  rows.push_back(scheduler("256+10k", 10'000));
  for (const auto& [name, transport] :
       {std::pair("refit/memory", RowTransport::kMemory),
        std::pair("refit/disk", RowTransport::kDisk), std::pair("refit/ipc", RowTransport::kIpc)}) {
    rows.push_back({.name = name, .kind = RowKind::kRefit, .transport = transport});
  }
  return rows;
}

}  // namespace

std::span<const RowSpec> all_rows() {
  static const std::vector<RowSpec> rows = make_rows();
  return rows;
}

StatusOr<std::vector<RowSpec>> choose_rows(const std::vector<std::string>& patterns) {
  const auto matches = [](const std::string& pattern, const RowSpec& row) {
    return ::fnmatch(pattern.c_str(), row.name.c_str(), 0) == 0;
  };
  const std::span<const RowSpec> all = all_rows();
  for (const std::string& pattern : patterns) {
    if (std::any_of(all.begin(), all.end(),
                    [&](const RowSpec& row) { return matches(pattern, row); })) {
      continue;
    }
    std::vector<std::string> names;
    for (const RowSpec& row : all) names.push_back(row.name);
    return absl::InvalidArgumentError(
        fmt::format("--rows \"{}\" matches no row; there are {}", pattern, fmt::join(names, ", ")));
  }
  std::vector<RowSpec> chosen;
  for (const RowSpec& row : all) {
    if (patterns.empty() ||
        std::any_of(patterns.begin(), patterns.end(),
                    [&](const std::string& pattern) { return matches(pattern, row); })) {
      chosen.push_back(row);
    }
  }
  return chosen;
}

}  // namespace rlgen::cli
