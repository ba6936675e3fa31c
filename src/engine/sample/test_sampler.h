#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "engine/sample/sampler.h"

// The sampler asked on every instruction set of this machine, for its tests.
namespace rlgen::engine::test {

using kernels::available_isas;
using kernels::kernel_table;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// What the values of the field reports are given to.
inline constexpr double kFourDigits = 5.1e-5;

// One call of the sampler, with everything that decides its answer.
struct Ask {
  std::vector<float> logits = {2.0f, 1.0f, 0.0f, -1.0f};
  SamplingParams params = {};
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  std::vector<int32_t> stop_ids = {};
  int32_t vocab_size = 0;  // 0: all of the row
  int32_t sample_index = 0;
  int64_t position = 5;
};

inline StatusOr<TokenRecord> call(const kernels::KernelTable& table, const Ask& ask,
                                  std::optional<int32_t> scored, SampleScratch* scratch) {
  auto logits = ask.logits;
  const SampleRow row{
      .logits = logits,
      .vocab_size = ask.vocab_size > 0 ? ask.vocab_size : static_cast<int32_t>(logits.size()),
      .params = &ask.params,
      .prompt = ask.prompt,
      .output = ask.output,
      .stop_ids = ask.stop_ids,
      .sample_index = ask.sample_index,
      .position = ask.position};
  TokenRecord record;
  RLGEN_RETURN_IF_ERROR(scored ? score_token(table, row, *scored, scratch, &record)
                               : sample_token(table, row, scratch, &record));
  return record;
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline void expect_equal(const TokenRecord& a, const TokenRecord& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_TRUE(same_bits(a.logprob, b.logprob)) << a.logprob << " and " << b.logprob;
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token);
    EXPECT_TRUE(same_bits(a.top[i].logprob, b.top[i].logprob));
  }
}

// The answer on every instruction set of this machine, which must be one.
inline StatusOr<TokenRecord> on_all(const Ask& ask, std::optional<int32_t> scored) {
  SampleScratch scratch;
  const auto expected = call(*kernel_table(available_isas().front()), ask, scored, &scratch);
  for (const kernels::Isa isa : available_isas()) {
    const auto record = call(*kernel_table(isa), ask, scored, &scratch);
    EXPECT_EQ(record.status(), expected.status());
    if (record.ok() && expected.ok()) expect_equal(*record, *expected);
  }
  return expected;
}

inline StatusOr<TokenRecord> sample(const Ask& ask) { return on_all(ask, std::nullopt); }
inline StatusOr<TokenRecord> score(const Ask& ask, int32_t token) { return on_all(ask, token); }

inline float value_of(const Ask& ask, int32_t token) {
  const auto record = score(ask, token);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? record->logprob : kNan;
}

// Ids drawn at `draws` positions.
inline std::vector<int32_t> draw_many(Ask ask, int draws) {
  std::vector<int32_t> ids;
  SampleScratch scratch;
  const auto& table = *kernel_table(available_isas().back());
  for (int i = 0; i < draws; ++i) {
    ask.position = i;
    const auto record = call(table, ask, std::nullopt, &scratch);
    EXPECT_TRUE(record.ok()) << record.status();
    ids.push_back(record.ok() ? record->token : -1);
  }
  return ids;
}

inline std::set<int32_t> distinct(const std::vector<int32_t>& ids) {
  return {ids.begin(), ids.end()};
}

inline SamplingParams seeded(int64_t seed = 1) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

}  // namespace rlgen::engine::test
