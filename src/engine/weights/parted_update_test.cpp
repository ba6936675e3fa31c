#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/hash.h"
#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

// Updates of a tensor whose rows go to two slots in turns, the first of them transposed: kv_b_proj
// of latent attention.
namespace rlgen::engine {
namespace {

using test::tensor_bytes;

struct PartedSizes {
  int64_t heads, plain, value, rank;
};

std::shared_ptr<const models::NameTable> parted_table(const PartedSizes& sizes) {
  const auto& [heads, plain, value, rank] = sizes;
  auto table = std::make_shared<models::NameTable>();
  table->slots = {{.name = "keys", .n = rank, .k = plain, .count = heads},
                  {.name = "values", .n = value, .k = rank, .count = heads}};
  table->entries = {
      {.name = "kv_b", .shape = {heads * (plain + value), rank}, .slot = 0, .parts = {}}};
  table->entries[0].parts = {{0, plain, true}, {1, value, false}};
  return table;
}

class PartedUpdate : public ::testing::TestWithParam<PartedSizes> {
 protected:
  UpdateSpec begin_update(WeightSerial serial, DType dtype, int seed) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = test::manifest_of(*table_, dtype);
    update.manifest[0].digest = digest_of(tensor_bytes(update.manifest[0], seed)).hex();
    EXPECT_EQ(store_.begin(update), absl::OkStatus());
    return update;
  }

  // Element (row, column) of the tensor as the packed matrices have it.
  void expect_placed(const std::vector<std::byte>& tensor, size_t element) {
    const auto& [heads, plain, value, rank] = GetParam();
    const models::WeightSet& weights = *store_.current();
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t first = head * (plain + value);
      std::vector<std::byte> keys(size_t(rank * plain) * element);
      kernels::unpack_rows(weights.stack(0).at(head), 0, rank, keys.data());
      std::vector<std::byte> values(size_t(value * rank) * element);
      kernels::unpack_rows(weights.stack(1).at(head), 0, value, values.data());
      for (int64_t i = 0; i < plain * rank; ++i) {
        const int64_t at = (first + i % plain) * rank + i / plain;
        ASSERT_TRUE(std::equal(&keys[size_t(i) * element], &keys[size_t(i) * element] + element,
                               &tensor[size_t(at) * element]));
      }
      ASSERT_TRUE(std::equal(values.begin(), values.end(),
                             &tensor[size_t((first + plain) * rank) * element]));
    }
  }

  std::shared_ptr<const models::NameTable> table_ = parted_table(GetParam());
  ManualClock clock_;
  WeightStore store_{table_, {.clock = &clock_}};
};

TEST_P(PartedUpdate, AnyBytesInAnyOrderAreServedAndReadBack) {
  std::mt19937 random(5);
  WeightSerial serial = 0;
  for (int round = 0; round < 12; ++round) {
    const DType dtype = DType::kBFloat16;
    const UpdateSpec update = begin_update(++serial, dtype, round);
    const ManifestEntry& entry = update.manifest[0];
    const auto bytes = tensor_bytes(entry, round);
    std::vector<std::pair<size_t, size_t>> pieces;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t end = std::min(bytes.size(), begin + 1 + random() % (bytes.size() / 3));
      pieces.emplace_back(begin, end);
      begin = end;
    }
    std::ranges::shuffle(pieces, random);
    for (const auto& [begin, end] : pieces) {
      ASSERT_EQ(store_.write(update.update_id, entry.name, begin,
                             std::span(bytes).subspan(begin, end - begin)),
                absl::OkStatus());
    }
    ASSERT_EQ(store_.prepare(update.update_id), absl::OkStatus());
    ASSERT_EQ(store_.commit(update.update_id), absl::OkStatus());
    EXPECT_EQ(*read_tensor(*store_.current(), entry.name, dtype), bytes);
    EXPECT_EQ(*tensor_checksum(*store_.current(), entry.name, dtype), entry.digest);
    expect_placed(bytes, 2);
  }
}

TEST_P(PartedUpdate, OneChangedElementIsAChange) {
  const auto& [heads, plain, value, rank] = GetParam();
  UpdateSpec update = begin_update(1, DType::kFloat32, 3);
  auto bytes = tensor_bytes(update.manifest[0], 3);
  const auto commit = [&] {
    ASSERT_EQ(store_.write(update.update_id, "kv_b", 0, bytes), absl::OkStatus());
    ASSERT_EQ(store_.prepare(update.update_id), absl::OkStatus());
    ASSERT_EQ(store_.commit(update.update_id), absl::OkStatus());
  };
  commit();
  expect_placed(bytes, 4);
  int changes = 0;
  for (const int64_t row : {int64_t{-1}, int64_t{0}, plain, heads * (plain + value) - 1}) {
    if (row >= 0) bytes[size_t(row * rank * 4)] ^= std::byte{1};
    update = test::numbered(WeightSerial(10 + row));
    update.manifest = test::manifest_of(*table_, DType::kFloat32);
    ASSERT_EQ(store_.begin(update), absl::OkStatus());
    commit();
    changes += int(store_.last_report()->changed);
    EXPECT_EQ(store_.last_report()->changed, row >= 0 ? 1 : 0) << row;
  }
  EXPECT_EQ(changes, 3);
}

// Rows that are columns of a matrix, and groups of 16 of the others, need not wait.
TEST(PartedUpdateStaging, WholeTurnsAreNotHeldBack) {
  const auto table = parted_table({.heads = 3, .plain = 5, .value = 32, .rank = 6});
  ManualClock clock;
  WeightStore store(table, {.clock = &clock});
  UpdateSpec update = test::numbered(1);
  update.manifest = test::manifest_of(*table, DType::kFloat32);
  ASSERT_EQ(store.begin(update), absl::OkStatus());
  const auto bytes = tensor_bytes(update.manifest[0], 1);
  const auto write = [&](size_t begin, size_t end) {
    return store.write("u1", "kv_b", begin * 24,
                       std::span(bytes).subspan(begin * 24, (end - begin) * 24));
  };
  ASSERT_EQ(write(37, 74), absl::OkStatus());  // the second head
  ASSERT_EQ(write(2, 21), absl::OkStatus());   // the first from its third row to a group's end
  ASSERT_EQ(write(21, 37), absl::OkStatus());
  ASSERT_EQ(write(74, 76), absl::OkStatus());
  EXPECT_EQ(store.staging_bytes(), 0);
  ASSERT_EQ(write(80, 82), absl::OkStatus());  // within a group
  EXPECT_EQ(store.staging_bytes(), int64_t(bytes.size()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, PartedUpdate,
                         ::testing::Values(PartedSizes{3, 5, 7, 6}, PartedSizes{2, 16, 32, 48},
                                           PartedSizes{4, 12, 10, 20}),
                         [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace rlgen::engine
