#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"
#include "models/families/family.h"

// Updates of gpt-oss, whose experts have one tensor a layer for each of four parts.
namespace rlgen::engine {
namespace {

using test::tensor_bytes;

models::DecoderSpec gpt_oss_spec() {
  models::DecoderSpec spec = test::tiny_expert_spec("gpt_oss", {.count = 5,
                                                                .top_k = 2,
                                                                .intermediate = 9,
                                                                .normalize = true,
                                                                .router_bias = true,
                                                                .bias = true,
                                                                .count_key = "num_local_experts"});
  spec.qkv_bias = spec.output_bias = spec.sinks = true;
  return spec;
}

class GptOssUpdate : public ::testing::Test {
 protected:
  UpdateSpec numbered(WeightSerial serial) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = test::manifest_of(*table_);
    return update;
  }

  // All of it in ranges, but for those of one tensor.
  Status write_in_ranges(const UpdateSpec& update, int seed, std::string_view left_out = "") {
    for (const test::TensorPiece& piece : test::cut_anywhere(update, random_)) {
      if (piece.entry->name == left_out) continue;
      RLGEN_RETURN_IF_ERROR(test::write_piece(&store_, update, piece, seed));
    }
    return absl::OkStatus();
  }

  std::mt19937 random_{5};
  std::shared_ptr<const models::NameTable> table_ =
      std::make_shared<models::NameTable>(models::gpt_oss_names(gpt_oss_spec()));
  ManualClock clock_;
  WeightStore store_{table_, {.clock = &clock_}};
};

TEST_F(GptOssUpdate, RangesInAnyOrderAreServed) {
  for (const int seed : {1, 2}) {
    const UpdateSpec update = numbered(WeightSerial(seed));
    ASSERT_EQ(store_.begin(update), absl::OkStatus());
    ASSERT_EQ(write_in_ranges(update, seed), absl::OkStatus());
    ASSERT_EQ(store_.prepare(update.update_id), absl::OkStatus());
    ASSERT_EQ(store_.commit(update.update_id), absl::OkStatus());
    for (const ManifestEntry& entry : update.manifest) {
      EXPECT_EQ(*read_tensor(*store_.current(), entry.name, entry.dtype), tensor_bytes(entry, seed))
          << entry.name;
    }
  }
}

TEST_F(GptOssUpdate, ATensorOfOneLayerThatNeverCameIsNamed) {
  const std::string name = "model.layers.1.mlp.experts.down_proj";
  const UpdateSpec update = numbered(1);
  ASSERT_EQ(store_.begin(update), absl::OkStatus());
  ASSERT_EQ(write_in_ranges(update, 1, name), absl::OkStatus());
  const Status incomplete = store_.prepare("u1");
  EXPECT_EQ(incomplete.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(message_of(incomplete).find(name + ": byte 0 of 1800 is missing"), std::string::npos)
      << incomplete;
}

TEST_F(GptOssUpdate, WhatTheManifestLacksOrHasInAnotherSizeIsNamed) {
  UpdateSpec update = numbered(1);
  std::erase_if(update.manifest, [](const ManifestEntry& entry) {
    return entry.name == "model.layers.0.mlp.experts.gate_up_proj_bias";
  });
  std::ranges::find(update.manifest, "model.layers.1.mlp.router.bias", &ManifestEntry::name)
      ->shape = Shape{4};
  const std::string refused = message_of(store_.begin(update));
  EXPECT_NE(refused.find("\"model.layers.0.mlp.experts.gate_up_proj_bias\" [5, 18] "
                         "(num_local_experts is 5) is missing"),
            std::string::npos)
      << refused;
  EXPECT_NE(refused.find("\"model.layers.1.mlp.router.bias\" has shape [4], expected [5]"),
            std::string::npos)
      << refused;
}

}  // namespace
}  // namespace rlgen::engine
