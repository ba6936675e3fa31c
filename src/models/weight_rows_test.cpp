#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "models/families/table_builder.h"
#include "models/weights.h"

// Tensors that lie otherwise than their slots: transposed, or with two halves in turns.
namespace rlgen::models {
namespace {

using Halves = std::vector<uint16_t>;  // elements of a 2-byte type, as bits

const std::byte* bytes_of(const Halves& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

Halves any_values(int64_t count, uint32_t seed) {
  Halves values;
  for (uint32_t state = seed; int64_t(values.size()) < count;) {
    state = state * 1664525u + 1013904223u;
    values.push_back(uint16_t(state >> 16));
  }
  return values;
}

// `count` matrices [n, k] in one slot under one name, of the type bfloat16.
struct Stack {
  int64_t count = 1;
  int64_t n = 1;
  int64_t k = 1;
  RowOrder order;

  NameTable table() const {
    TableBuilder builder;
    builder.matrix("stack", k, count);
    builder.fill_whole("w", order.transposed ? Shape{count, k, n} : Shape{count, n, k}, order);
    builder.close();
    NameTable made = builder.take();
    EXPECT_TRUE(resolve_layout({{"w", DType::kBFloat16, made.entries[0].shape, {}}}, &made).ok());
    return made;
  }

  // Element (r, c) of matrix m, as the tensor has it.
  uint16_t at(const Halves& tensor, int64_t m, int64_t r, int64_t c) const {
    const auto in_turns = [&](int64_t i, int64_t size) {
      if (!order.interleaved) return i;
      return i < size / 2 ? 2 * i : 2 * (i - size / 2) + 1;
    };
    if (order.transposed) return tensor[size_t((m * k + c) * n + in_turns(r, n))];
    return tensor[size_t((m * n + r) * k + in_turns(c, k))];
  }
};

Stack any_stack() {
  Stack stack;
  stack.count = *rc::gen::inRange(1, 4);
  stack.order.transposed = *rc::gen::arbitrary<bool>();
  stack.order.interleaved = *rc::gen::arbitrary<bool>();
  stack.n = 2 * *rc::gen::inRange(1, 25);
  stack.k = 2 * *rc::gen::inRange(1, 25);
  if (!stack.order.interleaved) {
    stack.n -= *rc::gen::inRange(0, 2);
    stack.k -= *rc::gen::inRange(0, 2);
  }
  return stack;
}

// Ranges of rows that cover all, in any order.
std::vector<std::pair<int64_t, int64_t>> any_ranges(int64_t rows) {
  auto cuts = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, rows));
  cuts.push_back(0);
  cuts.push_back(rows);
  std::ranges::sort(cuts);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) ranges.emplace_back(cuts[i], cuts[i + 1]);
  for (size_t i = ranges.size(); i > 1; --i) {
    std::swap(ranges[i - 1], ranges[*rc::gen::inRange<size_t>(0, i)]);
  }
  return ranges;
}

RC_GTEST_PROP(WeightRows, AnyRangesInAnyOrderAreTheMatrixAndTheTensor, ()) {
  const Stack stack = any_stack();
  const NameTable table = stack.table();
  const WeightEntry& entry = table.entries[0];
  const Halves tensor = any_values(entry.shape.num_elements(), *rc::gen::arbitrary<uint32_t>());
  std::vector<std::byte> region(table.total_bytes);
  for (const auto& [begin, end] : any_ranges(entry.rows())) {
    write_rows(table, entry, DType::kBFloat16, begin, end - begin,
               bytes_of(tensor) + begin * entry.row_size() * 2, region.data());
  }
  const kernels::PackedStack packed{{region.data(), DType::kBFloat16, stack.n, stack.k},
                                    stack.count};
  for (int64_t m = 0; m < stack.count; ++m) {
    Halves rows(size_t(stack.n * stack.k));
    kernels::unpack_rows(packed.at(m), 0, stack.n, reinterpret_cast<std::byte*>(rows.data()));
    for (int64_t i = 0; i < stack.n * stack.k; ++i) {
      RC_ASSERT(rows[size_t(i)] == stack.at(tensor, m, i / stack.k, i % stack.k));
    }
  }
  Halves back(tensor.size());
  for (const auto& [begin, end] : any_ranges(entry.rows())) {
    read_rows(table, entry, DType::kBFloat16, begin, end - begin, region.data(),
              reinterpret_cast<std::byte*>(back.data()) + begin * entry.row_size() * 2);
  }
  RC_ASSERT(back == tensor);
}

RC_GTEST_PROP(WeightRows, ARangeDiffersWhereOneOfItsElementsDoes, ()) {
  const Stack stack = any_stack();
  const NameTable table = stack.table();
  const WeightEntry& entry = table.entries[0];
  Halves tensor = any_values(entry.shape.num_elements(), 5);
  std::vector<std::byte> region(table.total_bytes);
  write_rows(table, entry, DType::kBFloat16, 0, entry.rows(), bytes_of(tensor), region.data());
  std::vector<std::byte> other = region;
  const auto changed = *rc::gen::inRange<size_t>(0, tensor.size());
  tensor[changed] ^= 1;
  write_rows(table, entry, DType::kBFloat16, 0, entry.rows(), bytes_of(tensor), other.data());
  const int64_t row = int64_t(changed) / entry.row_size();
  for (const auto& [begin, end] : any_ranges(entry.rows())) {
    RC_ASSERT(rows_differ(table, entry, begin, end - begin, region.data(), other.data()) ==
              (begin <= row && row < end));
  }
}

// Sent in another type than they are held in.
TEST(WeightRows, ATransposedTensorIsConvertedToo) {
  const Stack stack{.count = 2, .n = 6, .k = 5, .order = {.transposed = true, .interleaved = true}};
  const NameTable table = stack.table();
  const WeightEntry& entry = table.entries[0];
  std::vector<float> sent;
  for (int64_t i = 0; i < entry.shape.num_elements(); ++i) sent.push_back(float(i) - 20.0f);
  std::vector<std::byte> region(table.total_bytes);
  write_rows(table, entry, DType::kFloat32, 0, entry.rows(),
             reinterpret_cast<const std::byte*>(sent.data()), region.data());
  std::vector<float> back(sent.size());
  read_rows(table, entry, DType::kFloat32, 0, entry.rows(), region.data(),
            reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, sent);
  Halves row(5);
  kernels::unpack_rows({region.data(), DType::kBFloat16, 6, 5}, 3, 1,
                       reinterpret_cast<std::byte*>(row.data()));
  // Row 3 of 6 is the first odd element of each column: 1, 7, 13, ... of the tensor.
  for (size_t c = 0; c < 5; ++c) {
    const float value = sent[c * 6 + 1];
    EXPECT_EQ(row[c], uint16_t(std::bit_cast<uint32_t>(value) >> 16)) << c;
  }
}

// Biases of experts, gate and up in turns.
TEST(WeightRows, AVectorOfSeveralRowsMayComeInTurns) {
  TableBuilder builder;
  builder.vector("bias");
  builder.fill_whole("b", Shape{2, 6}, {.interleaved = true});
  builder.close();
  NameTable table = builder.take();
  const WeightEntry& entry = table.entries[0];
  ASSERT_TRUE(resolve_layout({{"b", DType::kFloat32, entry.shape, {}}}, &table).ok());
  EXPECT_EQ(table.slots[0].k, 12);
  const std::vector<float> sent = {0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32};
  auto region = *Region::create(int64_t(table.total_bytes));
  const auto* const bytes = reinterpret_cast<const std::byte*>(sent.data());
  write_rows(table, entry, DType::kFloat32, 1, 1, bytes + 24, region->data());
  write_rows(table, entry, DType::kFloat32, 0, 1, bytes, region->data());
  std::vector<float> held(12);
  std::memcpy(held.data(), region->data(), 48);
  EXPECT_EQ(held, (std::vector<float>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}));
  std::vector<float> back(12);
  read_rows(table, entry, DType::kFloat32, 0, 2, region->data(),
            reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, sent);
  std::vector<std::byte> other(region->data(), region->data() + table.total_bytes);
  other[28] ^= std::byte{1};
  EXPECT_FALSE(rows_differ(table, entry, 0, 1, region->data(), other.data()));
  EXPECT_TRUE(rows_differ(table, entry, 1, 1, region->data(), other.data()));
}

}  // namespace
}  // namespace rlgen::models
