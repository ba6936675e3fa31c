#include "cli/bench/work.h"

#include <gtest/gtest.h>

namespace rlgen::cli {
namespace {

// A model of one projection 32 x 64 and a head of 48 x 64, in bfloat16.
ModelCost small_cost() {
  models::DecoderSpec spec;
  spec.layers = 2;
  spec.heads = 4;
  spec.head_dim = 16;
  models::NameTable table;
  table.slots = {{.name = "embedding", .n = 48, .k = 64, .bytes = 48 * 64 * 2},
                 {.name = "qkv", .n = 32, .k = 64, .bytes = 32 * 64 * 2},
                 {.name = "norm", .kind = models::SlotKind::kVector, .n = 1, .k = 64, .bytes = 256},
                 {.name = "head", .n = 48, .k = 64, .bytes = 48 * 64 * 2}};
  models::DecoderSlots slots;
  slots.embedding = 0;
  slots.head = 3;
  return model_cost(spec, table, slots, 1000);
}

TEST(BenchWork, CountsTheModel) {
  const ModelCost cost = small_cost();
  EXPECT_EQ(cost.body_bytes, 32 * 64 * 2);
  EXPECT_EQ(cost.head_bytes, 48 * 64 * 2);
  EXPECT_EQ(cost.body_flops, 2.0 * 32 * 64);
  EXPECT_EQ(cost.head_flops, 2.0 * 48 * 64);
  EXPECT_EQ(cost.attention_flops, 4.0 * 2 * 4 * 16);
}

TEST(BenchWork, ATiedHeadIsReadOnce) {
  models::NameTable table;
  table.slots = {{.name = "embedding", .n = 48, .k = 64, .bytes = 48 * 64 * 2}};
  models::DecoderSlots slots;
  slots.embedding = 0;
  slots.head = 0;
  const ModelCost cost = model_cost({}, table, slots, 0);
  EXPECT_EQ(cost.head_bytes, 48 * 64 * 2);
  EXPECT_EQ(cost.body_bytes, 0);
}

TEST(BenchWork, OfExpertsOnlyThoseThatRowsGoThrough) {
  models::DecoderSpec spec;
  spec.experts = {.count = 8, .top_k = 2};
  models::NameTable table;
  table.slots = {{.name = "router", .n = 8, .k = 64, .bytes = 16 * 64 * 2},
                 {.name = "experts", .n = 32, .k = 64, .count = 8, .bytes = 8 * 32 * 64 * 2}};
  models::DecoderSlots slots;
  slots.layers = {{.experts_gate_up = 1, .experts_down = 1}};
  const ModelCost cost = model_cost(spec, table, slots, 0);
  EXPECT_EQ(cost.body_bytes, 16 * 64 * 2);
  EXPECT_EQ(cost.expert_bytes, 8 * 32 * 64 * 2);
  EXPECT_EQ(cost.body_flops, 2.0 * 8 * 64 + 2 * 2.0 * 32 * 64);
  EXPECT_EQ(cost.step_bytes(1), 16 * 64 * 2 + 2 * 32 * 64 * 2);
  EXPECT_EQ(cost.step_bytes(2), 16 * 64 * 2 + (1 - 0.75 * 0.75) * 8 * 32 * 64 * 2);
  EXPECT_EQ(decode_work(cost, 6, 0, 3.0).bytes, 3 * cost.step_bytes(2));
  EXPECT_EQ(prefill_work(cost, 1, 4, 2).bytes, 2 * cost.step_bytes(2));
}

// The matrices of all heads are read in every step; attention is that of latents.
TEST(BenchWork, LatentAttentionIsCountedAbsorbed) {
  models::DecoderSpec spec;
  spec.layers = 3;
  spec.heads = 8;
  spec.head_dim = 40;
  spec.latent = {.rank = 32, .plain = 12, .rotated = 8, .value = 16};
  models::NameTable table;
  table.slots = {{.name = "latent_keys", .n = 32, .k = 12, .count = 8, .bytes = 8 * 32 * 12 * 2}};
  models::DecoderSlots slots;
  slots.layers = {{.experts_gate_up = -1, .experts_down = -1}};
  const ModelCost cost = model_cost(spec, table, slots, 0);
  EXPECT_EQ(cost.body_bytes, 8 * 32 * 12 * 2);
  EXPECT_EQ(cost.expert_bytes, 0);
  EXPECT_EQ(cost.body_flops, 2.0 * 8 * 32 * 12);
  EXPECT_EQ(cost.attention_flops, 2.0 * 3 * 8 * (40 + 32));
}

TEST(BenchWork, PrefillIsCausal) {
  const ModelCost cost = small_cost();
  const Work work = prefill_work(cost, 2, 3, 4);
  EXPECT_EQ(work.flops, 6 * cost.body_flops + 2 * cost.head_flops + 2 * 6 * cost.attention_flops);
  EXPECT_EQ(work.bytes, 2.0 * (32 + 48) * 64 * 2 + 6 * 1000);
}

TEST(BenchWork, DecodeReadsWeightsOnceAStepAndEveryKey) {
  const ModelCost cost = small_cost();
  const Work work = decode_work(cost, 8, 100, 2.0);
  EXPECT_EQ(work.flops, 8 * (cost.body_flops + cost.head_flops) + 100 * cost.attention_flops);
  EXPECT_EQ(work.bytes, 2.0 * (32 + 48) * 64 * 2 + 100 * 1000);
}

TEST(BenchWork, TheTighterLimitCounts) {
  EXPECT_EQ(least_seconds({.flops = 10, .bytes = 6}, 5, 2), 3.0);
  EXPECT_EQ(least_seconds({.flops = 10, .bytes = 2}, 5, 2), 2.0);
}

}  // namespace
}  // namespace rlgen::cli
