#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/sample/test_sampler.h"
#include "kernels/ops.h"
#include "kernels/packing.h"
#include "tensor/bfloat16.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// An output head of noise in bfloat16, and the state that enters it.
struct Head {
  static constexpr int64_t kRows = 32'000;
  static constexpr int64_t kHidden = 64;

  std::vector<float> state;
  std::vector<float> weights;  // [kRows, kHidden], bfloat16 values
  std::vector<std::byte> packed;
};

Head make_head() {
  uint32_t state = 1;
  const auto noise = [&] {  // -1 to 1
    state = state * 1664525u + 1013904223u;
    return float(state >> 8) * 0x1p-23f - 1.0f;
  };
  Head head;
  for (int64_t i = 0; i < Head::kHidden; ++i) head.state.push_back(3.0f * noise());
  std::vector<uint16_t> halves;
  for (int64_t i = 0; i < Head::kRows * Head::kHidden; ++i) {
    halves.push_back(bf16_from_float(noise()));
    head.weights.push_back(float_from_bf16(halves.back()));
  }
  head.packed.resize(kernels::packed_bytes(DType::kBFloat16, Head::kRows, Head::kHidden));
  kernels::pack_rows(head.packed.data(), DType::kBFloat16, Head::kRows, Head::kHidden, 0,
                     Head::kRows, reinterpret_cast<const std::byte*>(halves.data()));
  return head;
}

std::vector<float> logits_of(const Head& head, kernels::Profile profile) {
  const auto* const table = kernel_table(available_isas().back());
  ThreadPool pool(1);
  std::vector<float> logits(size_t{Head::kRows});
  kernels::linear({table, &pool, profile},
                  {.x = head.state.data(),
                   .ldx = Head::kHidden,
                   .w = {head.packed.data(), DType::kBFloat16, Head::kRows, Head::kHidden},
                   .bias = nullptr,
                   .y = logits.data(),
                   .ldy = Head::kRows,
                   .m = 1});
  return logits;
}

// Log-softmax, everything in double.
std::vector<double> exact_logprobs(const Head& head) {
  std::vector<double> logits;
  for (int64_t row = 0; row < Head::kRows; ++row) {
    double sum = 0.0;
    for (int64_t i = 0; i < Head::kHidden; ++i) {
      sum += double{head.state[size_t(i)]} * double{head.weights[size_t(row * Head::kHidden + i)]};
    }
    logits.push_back(sum);
  }
  const double most = *std::ranges::max_element(logits);
  double mass = 0.0;
  for (const double x : logits) mass += std::exp(x - most);
  for (double& x : logits) x -= most + std::log(mass);
  return logits;
}

double largest_error(const Head& head, kernels::Profile profile,
                     const std::vector<double>& expected) {
  Ask ask{.logits = logits_of(head, profile), .params = seeded()};
  const auto likely = int32_t(std::ranges::max_element(expected) - expected.begin());
  double largest = 0.0;
  for (const int32_t token : {likely, 0, 1, 4711, 16'000, 31'999}) {
    const double error = double{value_of(ask, token)} - expected[size_t(token)];
    largest = std::max(largest, std::fabs(error));
  }
  return largest;
}

// Where nothing is rounded before the head, its log-probabilities are those of double arithmetic;
// the profiles that round are others by name, and as far off as the trainers' complaint says.
TEST(HeadPrecision, FB011_AHeadOf32000RowsAgainstDouble) {
  const Head head = make_head();
  const std::vector<double> expected = exact_logprobs(head);
  EXPECT_LT(largest_error(head, kernels::Profile::kFloat32, expected), 1e-4);
  EXPECT_GT(largest_error(head, kernels::Profile::kBFloat16, expected), 1e-3);
  EXPECT_GT(largest_error(head, kernels::Profile::kBFloat16Amx, expected), 1e-3);
}

}  // namespace
}  // namespace rlgen::engine
