#include <gtest/gtest.h>

#include <cstring>

#include "contract/manifest_error.h"
#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

// Labels, subsets and checks of values.
namespace rlgen::engine {
namespace {

using test::run_update;
using test::small_manifest;
using test::small_table;
using test::tensor_bytes;

class StoreOptionsTest : public ::testing::Test {
 protected:
  static UpdateSpec update_of(WeightSerial serial) {
    return {
        .update_id = "u" + std::to_string(serial), .serial = serial, .manifest = small_manifest()};
  }

  void expect_bytes(const std::string& name, int seed) {
    for (const ManifestEntry& entry : small_manifest()) {
      if (entry.name != name) continue;
      EXPECT_EQ(*read_tensor(*store.current(), name, entry.dtype), tensor_bytes(entry, seed));
    }
  }

  ManualClock clock;
  std::vector<WeightVersion> told;
  WeightStore store{
      small_table(),
      {.clock = &clock, .flip = [this](std::shared_ptr<const models::WeightSet> set, KvPolicy) {
         told.push_back(set->version());
         return absl::OkStatus();
       }}};
};

bool has_text(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string::npos;
}

TEST_F(StoreOptionsTest, WithoutAVersionItIsTheNextOne) {
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  EXPECT_EQ(store.current()->version(), 0);
  ASSERT_TRUE(run_update(&store, update_of(2), 2).ok());
  EXPECT_EQ(store.current()->version(), 1);
}

TEST_F(StoreOptionsTest, ALabelKeepsBytesAndSerial) {
  EXPECT_EQ(store.relabel(3).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  ASSERT_TRUE(store.relabel(12).ok());
  EXPECT_EQ(store.current()->version(), 12);
  EXPECT_EQ(store.current()->serial(), 1u);
  expect_bytes("q", 1);
  EXPECT_EQ(told, (std::vector<WeightVersion>{0, 12}));
  EXPECT_EQ(store.relabel(-1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(run_update(&store, update_of(2), 2).ok());
  EXPECT_EQ(store.current()->version(), 13);
}

TEST_F(StoreOptionsTest, ASubsetLeavesTheRestAsItIs_FB083_FB097) {
  UpdateSpec subset = update_of(9);
  subset.base = 0;
  std::erase_if(subset.manifest, [](const ManifestEntry& entry) {
    return entry.name != "k" && entry.name != "norm";
  });
  EXPECT_TRUE(has_text(store.begin(subset), "no weights are served"));
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  ASSERT_TRUE(store.relabel(3).ok());
  subset.base = 4;
  EXPECT_TRUE(has_text(store.begin(subset), "base is version 4 and version 3 is served"));
  EXPECT_EQ(store.current()->version(), 3);
  subset.base = 3;
  ASSERT_TRUE(run_update(&store, subset, 2).ok());
  EXPECT_EQ(store.current()->version(), 4);
  for (const char* name : {"embed", "q", "v"}) expect_bytes(name, 1);
  for (const char* name : {"k", "norm"}) expect_bytes(name, 2);
  EXPECT_EQ(store.manifest().size(), small_manifest().size());

  UpdateSpec undeclared = update_of(10);
  undeclared.manifest = subset.manifest;
  const Status missing = store.begin(undeclared);
  EXPECT_TRUE(has_text(missing, "tensor \"embed\" [40, 6] is missing")) << missing;
  UpdateSpec foreign = update_of(11);
  foreign.base = 4;
  foreign.manifest = {{.name = "foo", .dtype = DType::kBFloat16, .shape = {2}}};
  EXPECT_TRUE(has_text(store.begin(foreign), "no tensor that the model has"));
}

TEST_F(StoreOptionsTest, ErrorsOfTheManifestAreMarked) {
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  UpdateSpec twice = update_of(2);
  twice.manifest.push_back(twice.manifest[0]);
  UpdateSpec wide = update_of(2);
  wide.manifest[0].dtype = DType::kFloat32;
  UpdateSpec digest = update_of(2);
  digest.manifest[0].digest = "x";
  UpdateSpec missing = update_of(2);
  missing.manifest.pop_back();
  UpdateSpec foreign = update_of(2);
  foreign.base = 0;
  foreign.manifest = {{.name = "foo", .shape = {2}}};
  for (const UpdateSpec& update : {twice, wide, digest, missing, foreign}) {
    const Status refused = store.begin(update);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(is_manifest_error(refused)) << refused;
  }
  UpdateSpec nameless = update_of(2);
  nameless.update_id.clear();
  UpdateSpec negative = update_of(2);
  negative.version = -1;
  for (const UpdateSpec& update : {nameless, negative, update_of(1)}) {
    const Status refused = store.begin(update);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(is_manifest_error(refused)) << refused;
  }
}

TEST_F(StoreOptionsTest, ASubsetAfterASubsetHasEveryTensor) {
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  for (WeightSerial serial = 2; serial < 6; ++serial) {
    UpdateSpec subset = update_of(serial);
    subset.base = store.current()->version();
    subset.manifest = {subset.manifest[serial % 5]};
    const std::string changed = subset.manifest[0].name;
    ASSERT_TRUE(run_update(&store, subset, int(serial)).ok());
    expect_bytes(changed, int(serial));
  }
  EXPECT_EQ(served_checksums(*store.current(), store.manifest())->size(), small_manifest().size());
}

TEST_F(StoreOptionsTest, ValuesThatAreNotFiniteAreRefusedWhereAsked) {
  constexpr float kBad[] = {__builtin_nanf(""), __builtin_inff(), -__builtin_inff()};
  ASSERT_TRUE(run_update(&store, update_of(1), 1).ok());
  WeightSerial serial = 2;
  for (const float bad : kBad) {
    for (const std::string name : {"norm", "q"}) {
      for (const bool checked : {true, false}) {
        UpdateSpec update = update_of(serial++);
        update.check_finite = checked;
        ASSERT_TRUE(store.begin(update).ok());
        for (const ManifestEntry& entry : update.manifest) {
          auto bytes = tensor_bytes(entry, 5);
          uint32_t bits = 0;
          std::memcpy(&bits, &bad, 4);
          const auto upper = uint16_t(bits >> 16);
          if (entry.name == name) std::memcpy(bytes.data() + 2 * 5, &upper, 2);
          ASSERT_TRUE(store.write(update.update_id, entry.name, 0, bytes).ok());
        }
        const Status prepared = store.prepare(update.update_id);
        if (!checked) {
          EXPECT_TRUE(prepared.ok());
          EXPECT_TRUE(store.abort(update.update_id).ok());
          continue;
        }
        EXPECT_EQ(prepared.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_TRUE(has_text(prepared, "tensor " + name + ": element 5")) << prepared;
      }
    }
  }
  expect_bytes("q", 1);
}

}  // namespace
}  // namespace rlgen::engine
