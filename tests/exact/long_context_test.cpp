#include <gtest/gtest.h>

#include "exact/digest_file.h"
#include "exact/surroundings.h"

// Sequences of several chunks of attention, 256 keys each, and of several steps each.
namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// FB-056's prompt of 1,500 tokens and its company of 900; what the prompts are at the end of their
// chunks shows too.
std::vector<SequenceRequest> long_requests(const Loaded& loaded) {
  std::vector<SequenceRequest> requests;
  for (const auto& [length, kind] : {std::pair{1500, 1}, std::pair{900, 6}, std::pair{513, 11}}) {
    requests.push_back(mixed_request(kind));
    SequenceRequest& request = requests.back();
    request.id = length;
    request.prompt_token_ids = some_ids(size_t(length), kVocab, uint32_t(length));
    request.sampling.max_tokens = 3;
    request.sampling.ignore_eos = true;
  }
  return within_vocabulary(std::move(requests), loaded);
}

const std::vector<Surrounding>& long_surroundings() {
  static const std::vector<Surrounding> kAll = {
      {"FB056: at a budget of 1,024", {.budget = 1024}},
      {"FB056: at a budget of 1,024 on two threads", {.threads = 2, .budget = 1024}},
      {"chunks of up to 300 rows", {.threads = 2, .budget = 300, .block_size = 32}},
      {"after a hit of one chunk", {.budget = 1024}, after_hit<256>},
      {"after a hit of two chunks", {.threads = 2, .budget = 700}, after_hit<512>},
      {"scored", {.budget = 1024}, scored},
      {"scored on two threads", {.threads = 2, .budget = 400, .wanted = 2}, scored},
  };
  return kAll;
}

class LongContext : public ::testing::TestWithParam<kernels::Profile> {};

TEST_P(LongContext, FB056_ChunksOfKeysAndOfPromptsDoNotShow) {
  const kernels::Profile profile = GetParam();
  const Loaded loaded = load_checkpoint("llama_rope_dynamic", 2048);
  Rollouts rollouts{long_requests(loaded), {}};
  const Settings alone{
      .budget = 2048, .kv_dtype = kernels::operand_dtype(profile), .profile = profile};
  rollouts.alone = run_alone(loaded, alone, rollouts.requests);
  expect_nothing_shows(loaded, rollouts, long_surroundings(), alone);
  DigestStream all;
  for (const auto& [id, outcome] : rollouts.alone) all.update(digest_of_outcome(outcome));
  const std::string name(kernels::profile_name(profile));
  EXPECT_TRUE(report_digest("engine long context " + name, all.digest()));
}

INSTANTIATE_TEST_SUITE_P(Profiles, LongContext, ::testing::ValuesIn(kernels::kProfiles),
                         [](const auto& info) {
                           return std::string(kernels::profile_name(info.param));
                         });

}  // namespace
}  // namespace rlgen::engine
