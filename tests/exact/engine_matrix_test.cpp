#include <gtest/gtest.h>

#include <algorithm>

#include "exact/checkpoints.h"
#include "exact/digest_file.h"
#include "exact/surroundings.h"

// What a request returns depends on the request and the weights alone: a model of each family, and
// the types that arithmetic and cache may have, through everything that may differ around a
// request; and so do the experts that its tokens use.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// The axes. Several of them are FB-055, FB-056, FB-057 and FB-219.
std::vector<Surrounding> matrix_surroundings() {
  std::vector<Surrounding> all = {
      {"FB219: a row at a time", {.budget = 1}},
      {"FB056: chunks of up to 7 rows", {.threads = 2, .budget = 7}},
      {"everything in few steps", {.threads = 2, .budget = 2048}},
      {"three threads", {.threads = 3, .budget = 33}},
      {"few places and wanted rows", {.max_num_seqs = 5, .budget = 33, .wanted = 7}},
      {"blocks of 32 keys", {.threads = 2, .budget = 50, .block_size = 32}},
      {"blocks of 48 keys", {.max_num_seqs = 5, .budget = 33, .block_size = 48}},
      {"blocks of 1024 keys", {.threads = 2, .budget = 50, .kv_blocks = 40, .block_size = 1024}},
      {"nothing shared", {.threads = 2, .budget = 100, .prefix_caching = false}},
      {"a tiny pool", {.threads = 2, .budget = 64, .kv_blocks = 8}, preempted},
      {"a small pool", {.threads = 2, .budget = 16, .kv_blocks = 9}, preempted},
      {"FB055: cold and warm", {.threads = 2, .budget = 37}, warm},
      {"FB055: partly evicted", {.threads = 2, .budget = 37, .kv_blocks = 32}, warm},
      {"FB055: evicted before it is asked for", {.budget = 37, .kv_blocks = 12}, warm},
      {"FB057: a hit of 16", {.budget = 41}, after_hit<16>},
      {"FB057: a hit of 48", {.threads = 2, .budget = 41}, after_hit<48>},
      {"scored", {.threads = 2}, scored},
      {"scored in pieces", {.budget = 7, .wanted = 5, .kv_blocks = 11}, scored},
      {"continued", {.threads = 2, .budget = 31}, continued},
  };
  for (const kernels::Isa isa : kernels::available_isas()) {
    const std::string name(kernels::isa_name(isa));
    all.push_back({name, {.isa = name, .threads = 2, .budget = 16}});
  }
  return all;
}

struct MatrixCase {
  std::string checkpoint;
  DType kv_dtype = DType::kFloat32;
  kernels::Profile profile = kernels::Profile::kFloat32;
  RouteCapture capture = RouteCapture::kOff;

  std::string name() const {
    const std::string_view arithmetic = kernels::profile_name(profile);
    return checkpoint + "_" + std::string(arithmetic) + "_kv_" + std::string(torch_name(kv_dtype));
  }
  friend void PrintTo(const MatrixCase& matrix, std::ostream* out) { *out << matrix.name(); }
};

class EngineMatrix : public ::testing::TestWithParam<MatrixCase> {};

// Mixed requests, and samples of one prompt.
std::vector<SequenceRequest> matrix_requests(const Loaded& loaded, SequenceId mixed) {
  std::vector<SequenceRequest> requests = mixed_requests(mixed);
  for (int32_t sample = 0; sample < 4; ++sample) {
    requests.push_back(mixed_request(1));
    requests.back().id = mixed + sample;
    requests.back().prompt_token_ids = some_ids(75, kVocab, 78);
    requests.back().sample_index = sample;
  }
  return within_vocabulary(std::move(requests), loaded);
}

TEST_P(EngineMatrix, FB055_FB056_FB057_FB219_NoSurroundingChangesABit) {
  const auto& [checkpoint, kv_dtype, profile, capture] = GetParam();
  const Loaded loaded = load_checkpoint(checkpoint);
  Rollouts rollouts{matrix_requests(loaded, checkpoint == "llama" ? 28 : 10), {}};
  const Settings alone{
      .isa = "scalar", .kv_dtype = kv_dtype, .profile = profile, .route_capture = capture};
  rollouts.alone = run_alone(loaded, alone, rollouts.requests);
  if (capture != RouteCapture::kOff) expect_whole(rollouts.alone, rollouts.requests);
  expect_nothing_shows(loaded, rollouts, matrix_surroundings(), alone);
  DigestStream all;
  for (const auto& [id, outcome] : rollouts.alone) all.update(digest_of_outcome(outcome));
  EXPECT_TRUE(report_digest("engine " + GetParam().name(), all.digest()));
}

// One of each family, with routes where it has any; and a dense model, one with sinks and one with
// latent attention in the types that are not the default, without.
std::vector<MatrixCase> matrix_cases() {
  const std::vector<std::string> sparse = sparse_checkpoints();
  std::vector<MatrixCase> cases;
  for (const std::string& name : families_of_checkpoints()) {
    cases.push_back({name});
    if (std::ranges::find(sparse, name) == sparse.end()) continue;
    cases.back().capture = RouteCapture::kExpertLayers;
  }
  for (const DType kv_dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const char* name : {"llama", "gpt_oss", "deepseek_v3"}) cases.push_back({name, kv_dtype});
    for (const auto profile : {kernels::Profile::kBFloat16, kernels::Profile::kBFloat16Amx}) {
      cases.push_back({"llama_tied", kv_dtype, profile});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineMatrix, ::testing::ValuesIn(matrix_cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace rlgen::engine
