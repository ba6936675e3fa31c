#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/kernel_test.h"
#include "kernels/test_attention.h"

namespace rlgen::kernels {
namespace {

using test::first_key;
using test::key;
using test::query;
using test::Sequence;
using test::Shape;
using test::shapes;
using test::sink;
using test::value;

// Softmax attention in double, in the order of the textbook.
std::vector<double> reference(const Shape& shape, int64_t position, int64_t head, double scale) {
  std::vector<double> weights;
  double largest = -1e300;
  for (int64_t k = first_key(shape, position); k <= position; ++k) {
    double score = 0.0;
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      score += double{query(shape, position, head, d)} * double{key(shape, k, head, d)};
    }
    weights.push_back(score * scale);
    largest = std::max(largest, weights.back());
  }
  if (shape.sinks) largest = std::max(largest, double{sink(head)});
  double sum = shape.sinks ? std::exp(sink(head) - largest) : 0.0;
  for (double& w : weights) sum += w = std::exp(w - largest);
  std::vector<double> out(shape.value_dim);
  for (size_t i = 0; i < weights.size(); ++i) {
    for (int64_t d = 0; d < shape.value_dim; ++d) {
      out[d] += weights[i] / sum *
                double{value(shape, first_key(shape, position) + static_cast<int64_t>(i), head, d)};
    }
  }
  return out;
}

// Every |q|, |k| and |v| is at most 1. A score is off by at most (dim + 2) roundings of dim *
// scale, which moves a weight by that fraction; a chunk's sums add 256 roundings each to numerator
// and denominator, a merge 4, exp and the rest less than 16. A weight rounded to bfloat16 moves by
// at most 2^-9 of it.
double tolerance(const Shape& shape, int64_t keys, double scale) {
  const double score = (shape.head_dim + 2) * shape.head_dim * scale;
  const double sums = 2.0 * (256 + 4 * (static_cast<double>(keys) / 256 + 1)) + 16;
  return (2.0 * score + sums) * 0x1p-24 + (rounds(shape) ? 0x1p-9 : 0.0);
}

class Attention : public testing::TestWithParam<Isa> {
 protected:
  const KernelTable& table() const { return *kernel_table(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Isas, Attention, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST_P(Attention, IsCloseToTheTextbookInDouble) {
  for (const Shape& shape : shapes()) {
    if (shape.key_size != 1.0f) continue;  // products that become zero are no roundings
    Sequence sequence(table(), shape, 600);
    for (const int64_t position : {0, 1, 15, 16, 17, 255, 256, 257, 599}) {
      const auto out = sequence.attend(position, 1);
      for (int64_t head = 0; head < shape.heads; ++head) {
        const auto expected = reference(shape, position, head, sequence.scale());
        for (int64_t d = 0; d < shape.value_dim; ++d) {
          ASSERT_NEAR(out[head * shape.value_dim + d], expected[d],
                      tolerance(shape, position + 1, sequence.scale()))
              << "position " << position << ", head " << head << ", dimension " << d;
        }
      }
    }
  }
}

// exp as the kernels have it: for x <= 0 the weight of x in a row whose maximum is 0.
float kernel_exp(float x) {
  const float row[2] = {0.0f, x};
  float p[2];
  kernel_table(Isa::kScalar)->row_sums(row, 2, p, nullptr);
  return p[1];
}

float lane_sum(std::vector<float> lanes) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

struct Partial {
  float max = 0.0f;
  float sum = 0.0f;
  std::vector<float> value;
};

// The sum of weight(k) * value(k) over keys begin .. end - 1 of a chunk, as the profile has it.
template <typename X, typename Y>
float twin_values(Profile profile, int64_t begin, int64_t end, X weight, Y value) {
  float sum = 0.0f;
  if (profile == Profile::kFloat32) {
    for (int64_t k = begin; k < end; ++k) sum = std::fma(weight(k), value(k), sum);
    return sum;
  }
  if (profile == Profile::kBFloat16) {
    const auto seen = [&](auto of) { return [=](int64_t k) { return begin <= k ? of(k) : 0.0f; }; };
    return rounded_sum(profile, begin / 2 * 2, end, seen(weight), seen(value));
  }
  for (int64_t block = begin / 32 * 32; block < end; block += 32) {
    float chain[2] = {0.0f, 0.0f};
    for (int64_t k = std::max(block, begin); k < std::min(block + 32, end); ++k) {
      chain[k % 2] = profile_step(weight(k), value(k), chain[k % 2]);
    }
    sum = flushed(sum + flushed(chain[0] + chain[1]));
  }
  return sum;
}

// The sum of x(d) * y(d) over all dimensions.
template <typename X, typename Y>
float twin_score(const Shape& shape, X x, Y y) {
  if (rounds(shape)) return rounded_sum(shape.profile, 0, shape.head_dim, x, y);
  float sum = 0.0f;
  for (int64_t d = 0; d < shape.head_dim; ++d) sum = std::fma(x(d), y(d), sum);
  return sum;
}

// Keys begin .. end - 1, which lie in one chunk, by the definition in docs/numbers.md.
Partial chunk_twin(const Shape& shape, int64_t position, int64_t head, float scale, int64_t begin,
                   int64_t end) {
  std::vector<float> score;
  for (int64_t k = begin; k < end; ++k) {
    score.push_back(scale * twin_score(
                                shape, [&](int64_t d) { return query(shape, position, head, d); },
                                [&](int64_t d) { return key(shape, k, head, d); }));
  }
  Partial part;
  part.max = *std::max_element(score.begin(), score.end());
  std::vector<float> lanes(16, 0.0f);
  std::vector<float> weights;
  for (int64_t k = begin; k < end; ++k) {
    const float weight = kernel_exp(score[k - begin] - part.max);
    lanes[k % 16] += weight;
    weights.push_back(rounds(shape) ? stored(DType::kBFloat16, weight) : weight);
  }
  for (int64_t d = 0; d < shape.value_dim; ++d) {
    part.value.push_back(twin_values(
        shape.profile, begin, end, [&](int64_t k) { return weights[k - begin]; },
        [&](int64_t k) { return value(shape, k, head, d); }));
  }
  part.sum = lane_sum(lanes);
  return part;
}

std::vector<float> twin(const Shape& shape, int64_t position, int64_t head, float scale) {
  Partial total;
  for (int64_t begin = first_key(shape, position); begin <= position;) {
    const int64_t end = std::min(begin / 256 * 256 + 256, position + 1);
    const Partial part = chunk_twin(shape, position, head, scale, begin, end);
    begin = end;
    if (total.value.empty()) {
      total = part;
      continue;
    }
    const float largest = std::max(part.max, total.max);
    const float before = kernel_exp(total.max - largest);
    const float now = kernel_exp(part.max - largest);
    total.max = largest;
    total.sum = total.sum * before + part.sum * now;
    for (int64_t d = 0; d < shape.value_dim; ++d) {
      total.value[d] = std::fma(total.value[d], before, part.value[d] * now);
    }
  }
  if (shape.sinks) {
    const float largest = std::max(sink(head), total.max);
    const float before = kernel_exp(total.max - largest);
    total.sum = total.sum * before + kernel_exp(sink(head) - largest);
    for (float& v : total.value) v *= before;
  }
  for (float& v : total.value) v /= total.sum;
  return total.value;
}

TEST_P(Attention, HasTheBitsOfItsDefinition) {
  for (const Shape& shape : shapes()) {
    Sequence sequence(table(), shape, 600);
    for (const int64_t position : {0, 14, 31, 255, 256, 300, 512, 599}) {
      const auto out = sequence.attend(position, 1);
      for (int64_t head = 0; head < shape.heads; ++head) {
        const auto expected = twin(shape, position, head, sequence.scale());
        const auto at = out.begin() + head * shape.value_dim;
        ASSERT_EQ(std::vector<float>(at, at + shape.value_dim), expected)
            << "position " << position << ", head " << head;
      }
    }
  }
}

// One row at a time.
std::vector<float> row_by_row(Sequence& sequence, int64_t first, int64_t rows) {
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row) {
    const auto out = sequence.attend(first + row, 1);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

TEST_P(Attention, RowsDoNotDependOnEachOther) {
  for (const Shape& shape : shapes()) {
    Sequence sequence(table(), shape, 520);
    const auto expected = row_by_row(sequence, 240, 34);
    EXPECT_TRUE(all_same_bits(sequence.attend(240, 34), expected));
    EXPECT_TRUE(all_same_bits(sequence.attend(240, 34, {1, 2, 3, 10, 31, 32, 33}), expected));
    EXPECT_TRUE(all_same_bits(sequence.attend(240, 34, {7, 14, 21, 28}), expected));
    const auto tail = row_by_row(sequence, 505, 12);
    EXPECT_TRUE(all_same_bits(sequence.attend(505, 12), tail));
  }
}

TEST_P(Attention, TheBlockSizeDoesNotMatter) {
  for (Shape shape : shapes()) {
    shape.block_size = 16;
    const auto expected = Sequence(table(), shape, 400).attend(390, 10);
    for (const int32_t block_size : {32, 48, 64, 256, 512}) {
      shape.block_size = block_size;
      EXPECT_TRUE(all_same_bits(Sequence(table(), shape, 400).attend(390, 10), expected))
          << block_size;
    }
  }
}

TEST_P(Attention, LaterKeysNeverEnterEvenAsNan) {
  for (const Shape& shape : shapes()) {
    Sequence sequence(table(), shape, 270);
    const auto expected = sequence.attend(250, 19);
    sequence.spoil(269, std::numeric_limits<float>::quiet_NaN());
    auto out = sequence.attend(250, 20);
    out.resize(expected.size());
    EXPECT_EQ(out, expected);
  }
}

TEST_P(Attention, FB167_AWindowOfFourShowsFourKeys) {
  Shape shape{.heads = 2, .kv_heads = 1, .head_dim = 4, .value_dim = 4, .window = 4};
  Sequence sequence(table(), shape, 40);
  // What stands before the window does not count, whatever it is; what stands in it does.
  const auto expected = sequence.attend(10, 1);
  EXPECT_EQ(std::vector<float>(expected.begin(), expected.begin() + 4),
            twin(shape, 10, 0, sequence.scale()));
  for (int64_t position = 0; position < 7; ++position) sequence.spoil(position, 100.0f);
  EXPECT_TRUE(all_same_bits(sequence.attend(10, 1), expected));
  const auto prefill = sequence.attend(7, 6);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), prefill.begin() + 3 * 8));
  const auto chunked = sequence.attend(7, 6, {2, 4});
  EXPECT_EQ(chunked, prefill);
  sequence.spoil(7, 100.0f);
  EXPECT_NE(sequence.attend(10, 1), expected);
}

TEST_P(Attention, ASinkOfMinusInfinityIsNone) {
  const Shape shape{.heads = 2, .kv_heads = 1, .head_dim = 16, .value_dim = 24};
  Sequence sequence(table(), shape, 300);
  const auto expected = sequence.attend(290, 5);
  sequence.set_sinks(-std::numeric_limits<float>::infinity());
  EXPECT_TRUE(all_same_bits(sequence.attend(290, 5), expected));
  // One above all scores takes the weight from them.
  sequence.set_sinks(1e30f);
  for (const float v : sequence.attend(290, 5)) EXPECT_EQ(v, 0.0f);
}

// The sizes of DeepSeek-V2 and V3, which no cache of the processor holds a tile of.
TEST_P(Attention, LatentsOfFullSizeHaveTheBitsOfTheirDefinition) {
  const Shape shape = {.heads = 128,
                       .kv_heads = 1,
                       .head_dim = 576,
                       .value_dim = 512,
                       .dtype = DType::kBFloat16,
                       .values_in_keys = true};
  Sequence sequence(table(), shape, 290);
  sequence.cut_heads(32);
  const auto out = sequence.attend(288, 2);
  for (const int64_t head : {0, 31, 32, 127}) {
    const auto at = out.begin() + (shape.heads + head) * shape.value_dim;
    EXPECT_EQ(std::vector<float>(at, at + shape.value_dim),
              twin(shape, 289, head, sequence.scale()))
        << "head " << head;
  }
}

TEST_P(Attention, HeadsThatShareKeysMayBeParted) {
  for (const Shape& shape : shapes()) {
    Sequence sequence(table(), shape, 300);
    const auto expected = sequence.attend(250, 20);
    for (const int32_t heads : {1, 2, 5, 64}) {
      sequence.cut_heads(heads);
      EXPECT_TRUE(all_same_bits(sequence.attend(250, 20, {3}), expected)) << heads;
      sequence.cut_keys(1);
      EXPECT_TRUE(all_same_bits(sequence.attend(250, 20), expected)) << heads;
      sequence.cut_keys(0);
    }
  }
}

RC_GTEST_PROP(AttentionProperty, SameBitsOnEveryIsaAndInEverySplit, ()) {
  Shape shape;
  shape.kv_heads = *rc::gen::inRange(1, 3);
  shape.heads = shape.kv_heads * *rc::gen::inRange(1, 10);
  shape.head_dim = *rc::gen::inRange(1, 40);
  shape.values_in_keys = *rc::gen::inRange(0, 3) == 0;
  shape.value_dim = *rc::gen::inRange(1, shape.values_in_keys ? shape.head_dim + 1 : 90);
  shape.block_size = 16 * *rc::gen::inRange(1, 5);
  shape.dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  shape.window = *rc::gen::element<int64_t>(0, 1, 4, 17, 200, 256, 300);
  shape.sinks = *rc::gen::arbitrary<bool>();
  if (shape.dtype == DType::kBFloat16 && !shape.values_in_keys) {
    shape.profile = *rc::gen::element(Profile::kFloat32, Profile::kBFloat16, Profile::kBFloat16Amx);
  }
  shape.key_size = rounds(shape) ? *rc::gen::element(1.0f, 0x1p-62f) : 1.0f;
  shape.value_size = rounds(shape) ? *rc::gen::element(1.0f, 0x1p-123f) : 1.0f;
  const int64_t first = *rc::gen::inRange<int64_t>(0, 520);
  const int64_t rows = *rc::gen::inRange<int64_t>(1, 20);
  const auto cuts = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, rows));
  Sequence scalar(*kernel_table(Isa::kScalar), shape, first + rows);
  const auto expected = row_by_row(scalar, first, rows);
  for (const Isa isa : available_isas()) {
    Sequence sequence(*kernel_table(isa), shape, first + rows);
    RC_ASSERT(all_same_bits(sequence.attend(first, rows, cuts), expected));
    sequence.cut_keys(1);
    RC_ASSERT(all_same_bits(sequence.attend(first, rows, cuts), expected));
    sequence.cut_heads(2);
    RC_ASSERT(all_same_bits(sequence.attend(first, rows, cuts), expected));
  }
}

TEST_P(Attention, PiecesOfTheKeysMergeToTheSameBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t window : {0, 300, 1000}) {
      const Shape shape = {.heads = 6,
                           .kv_heads = 2,
                           .head_dim = 24,
                           .value_dim = 40,
                           .dtype = dtype,
                           .window = window,
                           .sinks = dtype != DType::kFloat16};
      Sequence sequence(table(), shape, 1500);
      for (const int64_t first : {0, 255, 256, 1490}) {
        sequence.cut_keys(0);
        const std::vector<float> whole = sequence.attend(first, 10);
        for (const int64_t chunks : {1, 2, 5}) {
          sequence.cut_keys(chunks);
          EXPECT_EQ(sequence.attend(first, 10), whole)
              << "window " << window << " first " << first << " pieces of " << chunks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rlgen::kernels
