#include "engine/weights/weight_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "base/hash.h"
#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "tensor/bfloat16.h"

namespace rlgen::engine {
namespace {

using std::chrono::seconds;
using test::run_update;
using test::small_manifest;
using test::small_table;
using test::tensor_bytes;
using test::write_all;

class WeightStoreTest : public ::testing::Test {
 protected:
  UpdateSpec spec(WeightSerial serial, std::vector<ManifestEntry> manifest = small_manifest()) {
    return {.update_id = "u" + std::to_string(serial),
            .version = WeightVersion(serial) - 1,
            .serial = serial,
            .manifest = std::move(manifest)};
  }

  void expect_served(const std::vector<ManifestEntry>& manifest, int seed) {
    for (const ManifestEntry& entry : manifest) {
      const auto bytes = read_tensor(*store.current(), entry.name, entry.dtype);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(*bytes, tensor_bytes(entry, seed)) << entry.name;
    }
  }

  ManualClock clock;
  Status flip_result;
  std::vector<WeightSerial> flips;
  WeightStore store{
      small_table(),
      {.clock = &clock, .flip = [this](std::shared_ptr<const models::WeightSet> set, KvPolicy) {
         flips.push_back(set->serial());
         return flip_result;
       }}};
};

bool mentions(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string::npos;
}

TEST_F(WeightStoreTest, RoundTripInEveryWeightType) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    WeightStore other(small_table(), {.clock = &clock});
    UpdateSpec update = spec(1, small_manifest(dtype));
    for (ManifestEntry& entry : update.manifest)
      entry.digest = digest_of(tensor_bytes(entry, 3)).hex();
    ASSERT_TRUE(other.begin(update).ok());
    for (const ManifestEntry& entry : update.manifest) {
      ASSERT_TRUE(other.write("u1", entry.name, 0, tensor_bytes(entry, 3)).ok());
    }
    ASSERT_TRUE(other.prepare("u1").ok());
    ASSERT_TRUE(other.commit("u1").ok());
    const auto served = served_checksums(*other.current(), other.manifest());
    ASSERT_TRUE(served.ok()) << served.status();
    for (size_t i = 0; i < served->size(); ++i) {
      EXPECT_EQ((*served)[i].digest, update.manifest[i].digest) << (*served)[i].name;
      EXPECT_EQ((*served)[i].dtype, dtype);
    }
    EXPECT_EQ(other.current()->version(), 0);
    EXPECT_EQ(other.current()->serial(), 1u);
  }
}

TEST_F(WeightStoreTest, AToBToAGivesTheSameBytes) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  const auto first = *served_checksums(*store.current(), store.manifest());
  ASSERT_TRUE(run_update(&store, spec(2), 2).ok());
  expect_served(small_manifest(), 2);
  ASSERT_TRUE(run_update(&store, spec(3), 1).ok());
  const auto third = *served_checksums(*store.current(), store.manifest());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].digest, third[i].digest);
  EXPECT_EQ(flips, (std::vector<WeightSerial>{1, 2, 3}));
}

TEST_F(WeightStoreTest, AnyCuttingInAnyOrderFromSeveralWriters) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    UpdateSpec update = spec(WeightSerial(round) + 1);
    for (ManifestEntry& entry : update.manifest) {
      entry.digest = digest_of(tensor_bytes(entry, round)).hex();
    }
    ASSERT_TRUE(store.begin(update).ok());
    struct Piece {
      const ManifestEntry* entry;
      size_t begin, end;
    };
    std::vector<Piece> pieces;
    for (const ManifestEntry& entry : update.manifest) {
      const size_t size = tensor_bytes(entry, round).size();
      for (size_t at = 0; at < size;) {
        const size_t step = round % 3 == 0 ? 160 : 1 + random() % 200;
        pieces.push_back({&entry, at, std::min(size, at + step)});
        at = pieces.back().end;
      }
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    std::atomic<size_t> next{0};
    std::atomic<int> failures{0};
    const auto writer = [&] {
      for (size_t i = next++; i < pieces.size(); i = next++) {
        const auto bytes = tensor_bytes(*pieces[i].entry, round);
        const auto piece =
            std::span(bytes).subspan(pieces[i].begin, pieces[i].end - pieces[i].begin);
        if (!store.write(update.update_id, pieces[i].entry->name, pieces[i].begin, piece).ok())
          ++failures;
      }
    };
    {
      std::jthread other(writer);
      writer();
    }
    EXPECT_EQ(failures, 0);
    const Status prepared = store.prepare(update.update_id);
    ASSERT_TRUE(prepared.ok()) << prepared;
    ASSERT_TRUE(store.commit(update.update_id).ok());
    expect_served(update.manifest, round);
  }
}

TEST_F(WeightStoreTest, ManifestFaultsAreNamed) {
  auto manifest = small_manifest();
  manifest[0].shape = Shape{41, 6};
  manifest[1].name = "kk";
  const Status status = store.begin(spec(1, manifest));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(mentions(status, "embed")) << status;
  EXPECT_TRUE(mentions(status, "[41, 6]")) << status;
  EXPECT_TRUE(mentions(status, "kk")) << status;
  manifest = small_manifest();
  manifest.push_back(manifest[0]);
  EXPECT_TRUE(mentions(store.begin(spec(1, manifest)), "lists tensor embed twice"));
  manifest = small_manifest();
  manifest[2].digest = "xyz";
  EXPECT_TRUE(mentions(store.begin(spec(1, manifest)), "digest 'xyz'"));
  EXPECT_TRUE(store.begin(spec(1)).ok());
}

TEST_F(WeightStoreTest, GapsOverlapsAndRangesOutsideAreRefused) {
  const UpdateSpec update = spec(1);
  ASSERT_TRUE(store.begin(update).ok());
  const auto bytes = tensor_bytes(update.manifest[0], 1);
  const auto part = std::span(bytes).first(100);
  EXPECT_TRUE(store.write("u1", "embed", 0, part).ok());
  EXPECT_TRUE(mentions(store.write("u1", "embed", 99, part.first(2)), "overlap"));
  EXPECT_TRUE(mentions(store.write("u1", "embed", 470, part), "outside its 480 bytes"));
  EXPECT_TRUE(mentions(store.write("u1", "embed", SIZE_MAX - 1, part), "outside"));
  EXPECT_EQ(store.write("u1", "nobody", 0, part).code(), absl::StatusCode::kNotFound);
  const Status incomplete = store.prepare("u1");
  EXPECT_EQ(incomplete.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(incomplete, "embed: byte 100 of 480 is missing")) << incomplete;
  EXPECT_TRUE(mentions(incomplete, "norm: byte 0 of 12")) << incomplete;
  EXPECT_EQ(store.commit("u1").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store.current(), nullptr);
  EXPECT_TRUE(store.write("u1", "embed", 100, std::span(bytes).subspan(100)).ok());
}

TEST_F(WeightStoreTest, DigestsAreCheckedWholeAndInParts) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  UpdateSpec update = spec(2);
  update.manifest[0].digest = digest_of("something else").hex();
  ASSERT_TRUE(store.begin(update).ok());
  const auto bytes = tensor_bytes(update.manifest[0], 2);
  EXPECT_EQ(store.write("u2", "embed", 0, bytes).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store.write("u2", "embed", 0, std::span(bytes).first(33)).ok());
  EXPECT_TRUE(store.write("u2", "embed", 33, std::span(bytes).subspan(33)).ok());
  for (size_t i = 1; i < update.manifest.size(); ++i) {
    const ManifestEntry& entry = update.manifest[i];
    ASSERT_TRUE(store.write("u2", entry.name, 0, tensor_bytes(entry, 2)).ok());
  }
  const Status status = store.prepare("u2");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(mentions(status, "tensor embed")) << status;
  EXPECT_EQ(store.commit("u2").code(), absl::StatusCode::kFailedPrecondition);
  expect_served(small_manifest(), 1);
  EXPECT_TRUE(run_update(&store, spec(3), 3).ok());
}

TEST_F(WeightStoreTest, StatesAndIdempotence) {
  const UpdateSpec update = spec(1);
  EXPECT_EQ(store.prepare("u1").code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store.begin(update).ok());
  EXPECT_TRUE(mentions(store.begin(spec(2)), "while update u1 is open"));
  EXPECT_TRUE(mentions(store.commit("u1"), "not prepared"));
  ASSERT_TRUE(write_all(&store, update, 1).ok());
  EXPECT_TRUE(store.prepare("u1").ok());
  EXPECT_TRUE(store.prepare("u1").ok());
  EXPECT_TRUE(mentions(store.write("u1", "norm", 0, {}), "takes no more bytes"));
  EXPECT_TRUE(store.commit("u1").ok());
  EXPECT_TRUE(store.commit("u1").ok());
  EXPECT_EQ(flips.size(), 1u);
  EXPECT_EQ(store.abort("u1").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(store.begin(update), "used before"));
  UpdateSpec again = spec(1);
  again.update_id = "other";
  EXPECT_TRUE(mentions(store.begin(again), "serial 1 is not new"));
  again.serial = 0;
  EXPECT_TRUE(mentions(store.begin(again), "serial 0"));
}

TEST_F(WeightStoreTest, AbortLeavesTheOldSetServing) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  ASSERT_TRUE(store.begin(spec(2)).ok());
  ASSERT_TRUE(write_all(&store, spec(2), 2).ok());
  ASSERT_TRUE(store.prepare("u2").ok());
  EXPECT_TRUE(store.abort("u2").ok());
  EXPECT_TRUE(store.abort("u2").ok());
  EXPECT_TRUE(mentions(store.commit("u2"), "was aborted"));
  expect_served(small_manifest(), 1);
}

TEST_F(WeightStoreTest, FailedFlipLeavesTheUpdatePrepared) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  ASSERT_TRUE(store.begin(spec(2)).ok());
  ASSERT_TRUE(write_all(&store, spec(2), 2).ok());
  ASSERT_TRUE(store.prepare("u2").ok());
  flip_result = absl::UnavailableError("gone");
  EXPECT_EQ(store.commit("u2").code(), absl::StatusCode::kUnavailable);
  expect_served(small_manifest(), 1);
  flip_result = absl::OkStatus();
  EXPECT_TRUE(store.commit("u2").ok());
  expect_served(small_manifest(), 2);
}

TEST_F(WeightStoreTest, DeadlineDropsTheUpdate) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  UpdateSpec update = spec(2);
  update.deadline = seconds(5);
  ASSERT_TRUE(store.begin(update).ok());
  ASSERT_TRUE(write_all(&store, update, 2).ok());
  clock.advance(seconds(4));
  ASSERT_TRUE(store.prepare("u2").ok());
  clock.advance(seconds(1));
  EXPECT_EQ(store.commit("u2").code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(store.abort("u2").ok());
  expect_served(small_manifest(), 1);
  EXPECT_TRUE(run_update(&store, spec(3), 3).ok());
}

TEST_F(WeightStoreTest, TheOldRegionIsTheNextShadow) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  const std::byte* first = store.current()->region()->data();
  auto reader = store.current();
  ASSERT_TRUE(run_update(&store, spec(2), 2).ok());
  const std::byte* second = store.current()->region()->data();
  EXPECT_NE(first, second);
  ASSERT_TRUE(store.begin(spec(3)).ok());  // the reader still holds the first region
  ASSERT_TRUE(store.abort("u3").ok());
  EXPECT_EQ(*read_tensor(*reader, "q", DType::kBFloat16), tensor_bytes(small_manifest()[3], 1));
  reader.reset();
  ASSERT_TRUE(run_update(&store, spec(4), 4).ok());
  ASSERT_TRUE(run_update(&store, spec(5), 5).ok());
  EXPECT_EQ(store.current()->region()->data(), second);
  expect_served(small_manifest(), 5);
}

TEST_F(WeightStoreTest, AnotherTypeNeedsCast) {
  ASSERT_TRUE(run_update(&store, spec(1), 1).ok());
  UpdateSpec update = spec(2, small_manifest(DType::kFloat32));
  EXPECT_TRUE(mentions(store.begin(update), "sent as float32 and stored as bfloat16"));
  update.cast = true;
  for (ManifestEntry& entry : update.manifest)
    entry.digest = digest_of(tensor_bytes(entry, 2)).hex();
  ASSERT_TRUE(store.begin(update).ok());
  for (const ManifestEntry& entry : update.manifest) {
    const auto bytes = tensor_bytes(entry, 2);
    ASSERT_TRUE(store.write("u2", entry.name, 0, std::span(bytes).first(7)).ok());
    ASSERT_TRUE(store.write("u2", entry.name, 7, std::span(bytes).subspan(7)).ok());
  }
  const Status prepared = store.prepare("u2");
  ASSERT_TRUE(prepared.ok()) << prepared;
  ASSERT_TRUE(store.commit("u2").ok());
  EXPECT_EQ(store.manifest()[0].dtype, DType::kBFloat16);
  EXPECT_EQ(store.manifest()[2].dtype, DType::kFloat32);  // the vector
  EXPECT_EQ(*read_tensor(*store.current(), "norm", DType::kFloat32),
            tensor_bytes(update.manifest[2], 2));
  EXPECT_FALSE(read_tensor(*store.current(), "q", DType::kFloat32).ok());
  EXPECT_TRUE(run_update(&store, spec(3), 3).ok());
}

TEST_F(WeightStoreTest, ATypeForAllWeightsRoundsWhatComesAndIsTheStoredOne) {
  auto table = std::make_shared<models::NameTable>(*small_table());
  table->dtype = DType::kBFloat16;
  WeightStore rounding(table, {.clock = &clock});
  const auto send = [&](UpdateSpec update, int seed) -> Status {
    for (ManifestEntry& entry : update.manifest)
      entry.digest = digest_of(tensor_bytes(entry, seed)).hex();
    RLGEN_RETURN_IF_ERROR(rounding.begin(update));
    for (const ManifestEntry& entry : update.manifest) {
      const auto bytes = tensor_bytes(entry, seed);
      RLGEN_RETURN_IF_ERROR(
          rounding.write(update.update_id, entry.name, 0, std::span(bytes).first(8)));
      RLGEN_RETURN_IF_ERROR(
          rounding.write(update.update_id, entry.name, 8, std::span(bytes).subspan(8)));
    }
    RLGEN_RETURN_IF_ERROR(rounding.prepare(update.update_id));
    return rounding.commit(update.update_id);
  };
  const Status first = send(spec(1, small_manifest(DType::kFloat32)), 1);
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_EQ(rounding.current()->table().slots[0].dtype, DType::kBFloat16);
  for (const float value : rounding.current()->vector(1)) {
    EXPECT_EQ(value, float_from_bf16(bf16_from_float(value)));
  }
  EXPECT_TRUE(mentions(send(spec(2, small_manifest(DType::kFloat32)), 2), "set cast"));
  const Status second = send(spec(3, small_manifest()), 2);
  ASSERT_TRUE(second.ok()) << second;
  for (const ManifestEntry& entry : small_manifest()) {
    EXPECT_EQ(*read_tensor(*rounding.current(), entry.name, entry.dtype), tensor_bytes(entry, 2));
  }
}

TEST_F(WeightStoreTest, SecondNameOfATiedHeadMustAgree) {
  UpdateSpec update = spec(1);
  ManifestEntry head = update.manifest[0];
  head.name = "head";
  update.manifest.push_back(head);
  ASSERT_TRUE(store.begin(update).ok());
  ASSERT_TRUE(write_all(&store, spec(1), 1).ok());
  EXPECT_TRUE(mentions(store.prepare("u1"), "head: byte 0 of 480"));
  ASSERT_TRUE(store.write("u1", "head", 0, tensor_bytes(update.manifest[0], 1)).ok());
  EXPECT_TRUE(store.prepare("u1").ok());
  EXPECT_TRUE(store.commit("u1").ok());
  EXPECT_EQ(*read_tensor(*store.current(), "head", DType::kBFloat16),
            tensor_bytes(update.manifest[0], 1));

  UpdateSpec other = update;
  other.update_id = "u2";
  other.serial = 2;
  ASSERT_TRUE(store.begin(other).ok());
  ASSERT_TRUE(write_all(&store, other, 2).ok());
  const Status status = store.prepare("u2");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(mentions(status, "tensor head differs")) << status;
  expect_served(small_manifest(), 1);
}

}  // namespace
}  // namespace rlgen::engine
