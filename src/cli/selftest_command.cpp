#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "backends/local/shard_options.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/session.h"
#include "contract/rollout_sink.h"
#include "generation/batch_run.h"
#include "kernels/kernel_table.h"
#include "kernels/selftest.h"

namespace rlgen::cli {
namespace {

using generation::GenerationRequest;

constexpr int32_t kPrompts = 8;
constexpr int32_t kTokens = 12;
constexpr int32_t kLongestPrompt = 40;

class RolloutList final : public RolloutSink {
 public:
  Status accept(const Rollout& rollout) override {
    if (rollout.finish.reason == FinishReason::kError) return rollout.finish.error;
    rollouts_[rollout.id] = rollout;
    return absl::OkStatus();
  }
  std::map<std::string, Rollout>& by_id() { return rollouts_; }

 private:
  std::map<std::string, Rollout> rollouts_;
};

// Prompt `index`: ids spread over the vocabulary, lengths from 1 to kLongestPrompt.
GenerationRequest make_request(int32_t index, const ShardInfo& info) {
  GenerationRequest request{.id = std::to_string(index)};
  const int32_t room = std::max(1, std::min(kLongestPrompt, info.max_model_len - kTokens));
  const int32_t length = 1 + index * (room - 1) / (kPrompts - 1);
  uint64_t state = static_cast<uint64_t>(index) + 1;
  for (int32_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    request.prompt_token_ids.push_back(
        static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(info.vocab_size)));
  }
  request.sampling.seed = index;
  request.sampling.max_tokens = kTokens;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 0.7f;
  request.sampling.top_p = 0.9f;
  return request;
}

StatusOr<std::map<std::string, Rollout>> roll(generation::Generation& generation,
                                              std::vector<GenerationRequest> requests,
                                              int64_t at_once) {
  RolloutList list;
  size_t next = 0;
  generation::BatchJob job;
  job.next = [&](bool) -> StatusOr<generation::NextRequest> {
    if (next == requests.size()) return generation::NextRequest{.request = {}, .ended = true};
    return generation::NextRequest{.request = requests[next++]};
  };
  job.rejected = [](const GenerationRequest&, const Status& why) { return why; };
  job.sink = &list;
  job.max_in_flight = at_once;
  RLGEN_RETURN_IF_ERROR(generation::run_batch(generation, job));
  return std::move(list.by_id());
}

// Hash of the tokens and the bits of their log-probabilities.
std::string digest(const Rollout& rollout) {
  DigestStream stream;
  for (const TokenRecord& record : rollout.tokens) {
    stream.update(fmt::format("{}:{:08x};", record.token, std::bit_cast<uint32_t>(record.logprob)));
  }
  return stream.digest().hex();
}

struct Variant {
  std::string isa;
  int32_t threads = 1;
  int32_t prompts = kPrompts;
};

// The best instruction set first. The scalar code is slow: one prompt.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  auto isas = kernels::available_isas();
  std::reverse(isas.begin(), isas.end());
  for (const kernels::Isa isa : isas) {
    const std::string name(kernels::isa_name(isa));
    const bool scalar = isa == kernels::Isa::kScalar;
    all.push_back({.isa = name, .threads = 1, .prompts = scalar ? 1 : kPrompts});
    if (!scalar && usable_cpus() > 1) all.push_back({.isa = name, .threads = usable_cpus()});
  }
  return all;
}

class Selftest {
 public:
  explicit Selftest(const SelftestOptions& options) : options_(options) {}

  StatusOr<int> run() {
    if (has_model()) RLGEN_RETURN_IF_ERROR(check_model());
    for (const kernels::Isa isa : kernels::available_isas()) {
      const Status status = kernels::check_kernels(*kernels::kernel_table(isa));
      if (!status.ok()) ++failed_;
      fmt::print("{:<6} {}: kernels{}\n", status.ok() ? "ok" : "FAILED", kernels::isa_name(isa),
                 status.ok() ? "" : ": " + message_of(status));
    }
    if (has_model()) {
      for (const Variant& variant : variants()) RLGEN_RETURN_IF_ERROR(run_variant(variant));
    }
    fmt::print("{}\n", failed_ == 0 ? "every check gave equal bits" : "some bits differ");
    return failed_ == 0 ? kExitGood : kExitFailed;
  }

 private:
  bool has_model() const { return !options_.engine.spec.model.empty(); }

  // What is wrong with the model or its options is said before the long part.
  Status check_model() const {
    const ShardSpec& spec = options_.engine.spec;
    RLGEN_ASSIGN_OR_RETURN(const models::Model model, backends::open_model(spec));
    return backends::choose_kv_layout(spec, model.decoder.spec).status();
  }

  Status run_variant(const Variant& variant) {
    EngineOptions options = options_.engine;
    options.spec.isa = variant.isa;
    options.spec.num_threads = variant.threads;
    RLGEN_ASSIGN_OR_RETURN(Session session, open_session(options));
    generation::Generation& generation = *session.generation;
    std::vector<GenerationRequest> requests;
    for (int32_t i = 0; i < variant.prompts; ++i) {
      requests.push_back(make_request(i, generation.info()));
    }
    const std::string name = fmt::format("{}, {} threads", variant.isa, variant.threads);
    RLGEN_ASSIGN_OR_RETURN(const auto batch, roll(generation, requests, kPrompts));
    const bool first = reference_.empty();
    if (first) {
      for (const auto& [id, rollout] : batch) reference_[id] = digest(rollout);
    }
    report(name + ": a batch", batch);
    if (!first) return absl::OkStatus();
    RLGEN_ASSIGN_OR_RETURN(const auto singles, roll(generation, requests, 1));
    report(name + ": one by one", singles);
    return check_scores(name, generation, requests, batch);
  }

  Status check_scores(const std::string& name, generation::Generation& generation,
                      const std::vector<GenerationRequest>& requests,
                      const std::map<std::string, Rollout>& rollouts) {
    std::vector<GenerationRequest> scores = requests;
    for (GenerationRequest& score : scores) {
      std::vector<int32_t> ids;
      for (const TokenRecord& record : rollouts.at(score.id).tokens) ids.push_back(record.token);
      score.score_token_ids = std::move(ids);
    }
    RLGEN_ASSIGN_OR_RETURN(const auto scored, roll(generation, scores, kPrompts));
    report(name + ": scored", scored);
    return absl::OkStatus();
  }

  void report(const std::string& what, const std::map<std::string, Rollout>& rollouts) {
    int32_t different = 0;
    for (const auto& [id, rollout] : rollouts) {
      if (digest(rollout) != reference_.at(id)) ++different;
    }
    if (different > 0) ++failed_;
    fmt::print("{:<6} {}: {} of {} equal\n", different == 0 ? "ok" : "FAILED", what,
               rollouts.size() - static_cast<size_t>(different), rollouts.size());
  }

  const SelftestOptions& options_;
  std::map<std::string, std::string> reference_;  // digest by id
  int32_t failed_ = 0;
};

}  // namespace

StatusOr<int> run_selftest(const SelftestOptions& options) { return Selftest(options).run(); }

}  // namespace rlgen::cli
