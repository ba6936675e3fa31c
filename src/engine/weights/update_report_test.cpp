#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_memory.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

// What an update says of itself.
namespace rlgen::engine {
namespace {

using test::kMegabyte;
using test::large_table;
using test::manifest_of;
using test::numbered;
using test::resident_bytes;
using test::run_update;
using test::small_manifest;
using test::small_table;
using test::tensor_bytes;
using test::write_all;

int64_t all_bytes() {
  int64_t bytes = 0;
  for (const ManifestEntry& entry : small_manifest()) {
    bytes += entry.shape.num_elements() * size_of(entry.dtype);
  }
  return bytes;
}

// The one after it, of the same tensors.
UpdateSpec next_of(UpdateSpec spec) {
  spec.serial += 1;
  spec.update_id = "u" + std::to_string(spec.serial);
  spec.version = WeightVersion(spec.serial);
  return spec;
}

class UpdateReportTest : public ::testing::Test {
 protected:
  // Sends every tensor with the bytes of `seed`, those of `again` with the bytes of seed 1.
  void send(WeightSerial serial, int seed, const std::vector<std::string>& again = {}) {
    const UpdateSpec spec = numbered(serial);
    ASSERT_TRUE(store.begin(spec).ok());
    for (const ManifestEntry& entry : spec.manifest) {
      const bool same = std::find(again.begin(), again.end(), entry.name) != again.end();
      const auto bytes = tensor_bytes(entry, same ? 1 : seed);
      ASSERT_TRUE(store.write(spec.update_id, entry.name, 0, bytes).ok());
    }
    ASSERT_TRUE(store.prepare(spec.update_id).ok());
    ASSERT_TRUE(store.commit(spec.update_id).ok());
  }

  ManualClock clock;
  WeightStore store{small_table(), {.clock = &clock}};
};

TEST_F(UpdateReportTest, FB099_CountsTheTensorsThatChanged) {
  EXPECT_EQ(store.last_report(), std::nullopt);
  send(1, 1);
  ASSERT_TRUE(store.last_report());
  EXPECT_EQ(store.last_report()->update_id, "u1");
  EXPECT_EQ(store.last_report()->tensors, 5);
  EXPECT_EQ(store.last_report()->bytes, all_bytes());
  EXPECT_EQ(store.last_report()->changed, 5);  // nothing was served
  send(2, 1);
  EXPECT_EQ(store.last_report()->changed, 0);
  send(3, 3, {"embed", "norm", "k"});
  EXPECT_EQ(store.last_report()->changed, 2);
  send(4, 3);
  EXPECT_EQ(store.last_report()->changed, 3);
  EXPECT_EQ(store.last_report()->update_id, "u4");
}

// Rows that share a tile with another tensor's count as their own, in pieces too; a subset counts
// what it lists (FB083).
TEST_F(UpdateReportTest, FB099_AnyByteOfATensorCountsAndOnlyItsOwn) {
  send(1, 1);
  WeightSerial serial = 1;
  for (const ManifestEntry& entry : small_manifest()) {
    const auto size = size_t(entry.shape.num_elements() * size_of(entry.dtype));
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      UpdateSpec spec = numbered(++serial);
      spec.base = store.current()->version();
      spec.manifest = {entry};
      auto bytes = tensor_bytes(entry, 1);
      bytes[place] ^= std::byte{1};
      for (const bool changed : {true, false}) {
        ASSERT_TRUE(store.begin(spec).ok());
        ASSERT_TRUE(store.write(spec.update_id, entry.name, 0, std::span(bytes).first(6)).ok());
        ASSERT_TRUE(store.write(spec.update_id, entry.name, 6, std::span(bytes).subspan(6)).ok());
        ASSERT_TRUE(store.prepare(spec.update_id).ok());
        ASSERT_TRUE(store.commit(spec.update_id).ok());
        EXPECT_EQ(store.last_report()->tensors, 1);
        EXPECT_EQ(store.last_report()->changed, changed ? 1 : 0) << entry.name << " at " << place;
        spec.update_id += " again";
        spec.serial = ++serial;
        spec.base = store.current()->version();
      }
      send(++serial, 1);
    }
  }
}

TEST_F(UpdateReportTest, FB099_ASecondNameChangesWithItsRows) {
  send(1, 1);
  UpdateSpec spec = numbered(2);
  ManifestEntry head = spec.manifest[0];
  head.name = "head";
  spec.manifest.push_back(head);
  ASSERT_TRUE(store.begin(spec).ok());
  ASSERT_TRUE(write_all(&store, numbered(2), 2).ok());
  ASSERT_TRUE(store.write("u2", "head", 0, tensor_bytes(spec.manifest[0], 2)).ok());
  ASSERT_TRUE(store.prepare("u2").ok());
  ASSERT_TRUE(store.commit("u2").ok());
  EXPECT_EQ(store.last_report()->tensors, 6);
  EXPECT_EQ(store.last_report()->changed, 6);
}

TEST_F(UpdateReportTest, FB095_StagesNoMoreThanTheTensorsThatComeInPieces) {
  send(1, 1);
  EXPECT_EQ(store.last_report()->staging_peak, 0);  // whole tensors are packed where they stand
  const UpdateSpec spec = numbered(2);
  ASSERT_TRUE(store.begin(spec).ok());
  int64_t expected = 0;
  for (const ManifestEntry& entry : spec.manifest) {
    const auto bytes = tensor_bytes(entry, 2);
    ASSERT_TRUE(store.write("u2", entry.name, 0, std::span(bytes).first(3)).ok());
    expected += int64_t(bytes.size());
    EXPECT_EQ(store.staging_bytes(), expected);
  }
  for (const ManifestEntry& entry : spec.manifest) {
    const auto bytes = tensor_bytes(entry, 2);
    ASSERT_TRUE(store.write("u2", entry.name, 3, std::span(bytes).subspan(3)).ok());
    expected -= int64_t(bytes.size());
    EXPECT_EQ(store.staging_bytes(), expected);
  }
  ASSERT_TRUE(store.prepare("u2").ok());
  ASSERT_TRUE(store.commit("u2").ok());
  EXPECT_EQ(store.last_report()->staging_peak, all_bytes());
  send(3, 3);
  EXPECT_EQ(store.last_report()->staging_peak, 0);
}

// The same bounds on the memory of the process, beside two sets of 64 MiB: nothing for whole
// tensors, and one tensor or two of 32 MiB, which are free again when they are packed.
TEST_F(UpdateReportTest, FB095_StagedMemoryGoesBackToTheSystem) {
  constexpr int64_t kTensor = 32 * kMegabyte, kSlack = 8 * kMegabyte;
  WeightStore large(large_table(), {.clock = &clock});
  UpdateSpec spec = numbered(1);
  spec.manifest = manifest_of(*large_table());
  for (; spec.serial < 3; spec = next_of(spec)) ASSERT_TRUE(run_update(&large, spec, 1).ok());
  const std::vector<std::byte> bytes[] = {tensor_bytes(spec.manifest[0], 3),
                                          tensor_bytes(spec.manifest[1], 3)};
  const int64_t before = resident_bytes();
  const auto write = [&](size_t tensor, size_t offset, size_t size) {
    const auto piece = std::span(bytes[tensor]).subspan(offset, size);
    EXPECT_TRUE(large.write(spec.update_id, spec.manifest[tensor].name, offset, piece).ok());
    return resident_bytes() - before;
  };
  const auto finish = [&] {
    EXPECT_TRUE(large.prepare(spec.update_id).ok());
    EXPECT_TRUE(large.commit(spec.update_id).ok());
    EXPECT_LT(resident_bytes() - before, kSlack);
    spec = next_of(spec);
    return large.last_report()->staging_peak;
  };

  ASSERT_TRUE(large.begin(spec).ok());
  for (const size_t tensor : {0, 1}) EXPECT_LT(write(tensor, 0, kTensor), kSlack);
  EXPECT_EQ(finish(), 0);

  ASSERT_TRUE(large.begin(spec).ok());
  for (const size_t tensor : {0, 1}) {
    EXPECT_NEAR(double(write(tensor, 0, 3)), double(kTensor), double(kSlack));
    EXPECT_LT(write(tensor, 3, kTensor - 3), kSlack);
  }
  EXPECT_EQ(finish(), kTensor);

  ASSERT_TRUE(large.begin(spec).ok());
  write(0, 0, 3);
  EXPECT_NEAR(double(write(1, 0, 3)), double(2 * kTensor), double(kSlack));
  write(0, 3, kTensor - 3);
  EXPECT_LT(write(1, 3, kTensor - 3), kSlack);
  EXPECT_EQ(finish(), 2 * kTensor);
}

}  // namespace
}  // namespace rlgen::engine
