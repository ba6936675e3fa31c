#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "base/hash.h"
#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

// Updates of tensors that hold their matrices transposed, or come with two halves in turns.
namespace rlgen::engine {
namespace {

using test::tensor_bytes;

// Three matrices [n, k] of 18 x 7 under "up", transposed and in turns; two of 5 x 6 under "down",
// transposed; a vector of several rows.
std::shared_ptr<const models::NameTable> transposed_table() {
  auto table = std::make_shared<models::NameTable>();
  table->slots = {{.name = "up", .n = 18, .k = 7, .count = 3},
                  {.name = "down", .n = 5, .k = 6, .count = 2},
                  {.name = "bias", .kind = models::SlotKind::kVector, .n = 1, .k = 12}};
  table->entries = {
      {.name = "bias", .shape = {3, 4}, .slot = 2, .interleaved = true},
      {.name = "down", .shape = {2, 6, 5}, .slot = 1, .transposed = true},
      {.name = "up", .shape = {3, 7, 18}, .slot = 0, .transposed = true, .interleaved = true}};
  return table;
}

class TransposedUpdate : public ::testing::Test {
 protected:
  UpdateSpec begin_update(WeightSerial serial, DType dtype, int seed) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = test::manifest_of(*table_, dtype);
    for (ManifestEntry& entry : update.manifest) {
      entry.digest = digest_of(tensor_bytes(entry, seed)).hex();
    }
    EXPECT_EQ(store_.begin(update), absl::OkStatus());
    return update;
  }

  std::shared_ptr<const models::NameTable> table_ = transposed_table();
  ManualClock clock_;
  WeightStore store_{table_, {.clock = &clock_}};
};

TEST_F(TransposedUpdate, AnyCuttingInAnyOrderFromSeveralWriters) {
  std::mt19937 random(11);
  WeightSerial serial = 0;
  for (int round = 0; round < 20; ++round) {
    const UpdateSpec update = begin_update(++serial, DType::kBFloat16, round);
    const std::vector<test::TensorPiece> pieces = test::cut_anywhere(update, random);
    std::atomic<size_t> next{0};
    std::atomic<int> failures{0};
    const auto writer = [&] {
      for (size_t i = next++; i < pieces.size(); i = next++) {
        if (!test::write_piece(&store_, update, pieces[i], round).ok()) ++failures;
      }
    };
    {
      const std::jthread other(writer);
      writer();
    }
    EXPECT_EQ(failures, 0);
    ASSERT_EQ(store_.prepare(update.update_id), absl::OkStatus());
    ASSERT_EQ(store_.commit(update.update_id), absl::OkStatus());
    for (const ManifestEntry& entry : update.manifest) {
      EXPECT_EQ(*read_tensor(*store_.current(), entry.name, entry.dtype),
                tensor_bytes(entry, round))
          << entry.name;
      EXPECT_EQ(*tensor_checksum(*store_.current(), entry.name, entry.dtype), entry.digest);
    }
  }
}

// A row is a column, so whole rows need not wait for others; parts of one do.
TEST_F(TransposedUpdate, WholeRowsAreNotHeldBack) {
  const UpdateSpec update = begin_update(1, DType::kFloat32, 4);
  const ManifestEntry& up = update.manifest[2];
  const auto bytes = tensor_bytes(up, 4);
  const size_t row = 18 * 4;
  const auto write = [&](size_t begin, size_t end) {
    return store_.write("u1", "up", begin, std::span(bytes).subspan(begin, end - begin));
  };
  ASSERT_EQ(write(5 * row, 9 * row), absl::OkStatus());
  ASSERT_EQ(write(0, row), absl::OkStatus());
  EXPECT_EQ(store_.staging_bytes(), 0);
  ASSERT_EQ(write(row, row + 8), absl::OkStatus());
  EXPECT_EQ(store_.staging_bytes(), int64_t(bytes.size()));
}

TEST_F(TransposedUpdate, CountsOnlyTensorsThatChange) {
  const auto changed_by = [&](const UpdateSpec& update, int seed) {
    EXPECT_EQ(test::run_update(&store_, update, seed), absl::OkStatus());
    return store_.last_report()->changed;
  };
  const auto whole = [&](WeightSerial serial) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = test::manifest_of(*table_, DType::kFloat16);
    return update;
  };
  EXPECT_EQ(changed_by(whole(1), 1), 3);
  EXPECT_EQ(changed_by(whole(2), 1), 0);
  UpdateSpec down = whole(3);
  down.base = 2;
  std::erase_if(down.manifest, [](const ManifestEntry& entry) { return entry.name != "down"; });
  EXPECT_EQ(changed_by(down, 9), 1);
}

}  // namespace
}  // namespace rlgen::engine
