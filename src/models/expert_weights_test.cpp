#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "models/families/decoder_names.h"
#include "models/families/family.h"
#include "models/weights.h"
#include "tensor/bfloat16.h"

// The tensors of experts: one by one and grouped.
namespace rlgen::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two layers, the second with experts whose matrices end within a tile.
DecoderSpec sparse_spec() {
  DecoderSpec spec{.family = "qwen3_moe",
                   .vocab_rows = 20,
                   .hidden = 6,
                   .layers = 2,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_dim = 4,
                   .intermediate = 10};
  spec.experts = {.count = 5, .top_k = 2, .intermediate = 9, .count_key = "num_experts"};
  spec.layer.resize(2);
  spec.layer[1].sparse = true;
  return spec;
}

std::vector<ManifestEntry> manifest_in(const NameTable& table, NameForm form) {
  std::vector<ManifestEntry> manifest;
  for (const WeightEntry& entry : table.entries) {
    if (entry.form != NameForm::kOnly && entry.form != form) continue;
    manifest.push_back({entry.name, DType::kBFloat16, entry.shape, {}});
  }
  return manifest;
}

std::string fault_of(const std::vector<ManifestEntry>& manifest, NameTable table) {
  const Status status = resolve_layout(manifest, &table);
  return status.ok() ? "accepted" : message_of(status);
}

void drop(std::vector<ManifestEntry>* manifest, std::string_view name) {
  EXPECT_EQ(std::erase_if(*manifest, [&](const auto& entry) { return entry.name == name; }), 1u);
}

TEST(ExpertNames, OneSlotHoldsAllExpertsOfALayer) {
  const NameTable table = dense_names(sparse_spec());
  const WeightSlot& gate_up = table.slots[size_t(table.slot_index("layers.1.experts_gate_up"))];
  EXPECT_EQ(gate_up.count, 5);
  EXPECT_EQ(gate_up.n, 18);
  EXPECT_EQ(gate_up.k, 6);
  const WeightSlot& down = table.slots[size_t(table.slot_index("layers.1.experts_down"))];
  EXPECT_EQ(down.count, 5);
  EXPECT_EQ(down.n, 6);
  EXPECT_EQ(down.k, 9);
  const WeightEntry* up = table.find("model.layers.1.mlp.experts.3.up_proj.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->row, 3 * 18 + 9);
  EXPECT_EQ(up->rows(), 9);
  const WeightEntry* grouped = table.find("model.layers.1.mlp.experts.gate_up_proj");
  ASSERT_NE(grouped, nullptr);
  EXPECT_EQ(grouped->shape, (Shape{5, 18, 6}));
  EXPECT_EQ(grouped->rows(), 5 * 18);
  EXPECT_EQ(grouped->row, 0);
  EXPECT_EQ(grouped->slot, up->slot);
  EXPECT_EQ(table.find("model.layers.1.mlp.experts.down_proj")->shape, (Shape{5, 6, 9}));
  EXPECT_TRUE(table.slots[size_t(table.slot_index("layers.1.router"))].outside_profile);
  EXPECT_EQ(table.slot_index("layers.0.router"), -1);
  EXPECT_EQ(table.slot_index("layers.1.gate_up"), -1);
  EXPECT_NE(table.find("model.layers.0.mlp.up_proj.weight"), nullptr);
}

TEST(ExpertNames, MixtralHasItsOwnAndTheGroupedOnes) {
  DecoderSpec spec = sparse_spec();
  spec.layer[0].sparse = true;
  const NameTable table = mixtral_names(spec);
  const auto place = [&](std::string_view name) { return table.find(name)->row; };
  EXPECT_EQ(place("model.layers.0.block_sparse_moe.experts.2.w1.weight"), 36);
  EXPECT_EQ(place("model.layers.0.block_sparse_moe.experts.2.w3.weight"), 45);
  EXPECT_EQ(place("model.layers.0.block_sparse_moe.experts.2.w2.weight"), 12);
  const WeightEntry* own = table.find("model.layers.1.block_sparse_moe.gate.weight");
  const WeightEntry* grouped = table.find("model.layers.1.mlp.gate.weight");
  ASSERT_TRUE(own && grouped);
  EXPECT_EQ(own->slot, grouped->slot);
  EXPECT_EQ(own->form, NameForm::kSeparate);
  EXPECT_EQ(grouped->form, NameForm::kGrouped);
  EXPECT_EQ(fault_of(manifest_in(table, NameForm::kSeparate), table), "accepted");
  EXPECT_EQ(fault_of(manifest_in(table, NameForm::kGrouped), table), "accepted");
}

TEST(ExpertNames, ASharedExpertHasThreeTensorsAndAGate) {
  DecoderSpec spec = sparse_spec();
  spec.experts.shared_intermediate = 7;
  const NameTable table = dense_names(spec);
  EXPECT_EQ(table.find("model.layers.1.mlp.shared_expert.up_proj.weight")->row, 7);
  EXPECT_EQ(table.find("model.layers.1.mlp.shared_expert.down_proj.weight")->shape, (Shape{6, 7}));
  const WeightEntry* gate = table.find("model.layers.1.mlp.shared_expert_gate.weight");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->shape, (Shape{1, 6}));
  EXPECT_TRUE(table.slots[size_t(gate->slot)].outside_profile);
  EXPECT_EQ(table.find("model.layers.0.mlp.shared_expert_gate.weight"), nullptr);
}

TEST(ExpertLayout, EitherFormIsWhole) {
  const NameTable table = dense_names(sparse_spec());
  EXPECT_EQ(fault_of(manifest_in(table, NameForm::kSeparate), table), "accepted");
  EXPECT_EQ(fault_of(manifest_in(table, NameForm::kGrouped), table), "accepted");
}

TEST(ExpertLayout, BothFormsInOneManifestAreNamed) {
  const NameTable table = dense_names(sparse_spec());
  auto manifest = manifest_in(table, NameForm::kSeparate);
  drop(&manifest, "model.layers.1.mlp.experts.4.down_proj.weight");
  manifest.push_back({"model.layers.1.mlp.experts.down_proj", DType::kBFloat16, {5, 6, 9}, {}});
  EXPECT_THAT(fault_of(manifest, table),
              AllOf(HasSubstr("experts come both one by one "
                              "(\"model.layers.1.mlp.experts.0.down_proj.weight\") and grouped "
                              "(\"model.layers.1.mlp.experts.down_proj\")"),
                    Not(HasSubstr("is missing"))));
}

TEST(ExpertLayout, AMissingExpertIsNamedWithTheKeyOfTheCount) {
  const NameTable table = dense_names(sparse_spec());
  auto separate = manifest_in(table, NameForm::kSeparate);
  drop(&separate, "model.layers.1.mlp.experts.3.up_proj.weight");
  EXPECT_THAT(fault_of(separate, table),
              HasSubstr("tensor \"model.layers.1.mlp.experts.3.up_proj.weight\" [9, 6] "
                        "(num_experts is 5) is missing"));
  auto grouped = manifest_in(table, NameForm::kGrouped);
  drop(&grouped, "model.layers.1.mlp.experts.down_proj");
  EXPECT_THAT(fault_of(grouped, table),
              HasSubstr("tensor \"model.layers.1.mlp.experts.down_proj\" [5, 6, 9] "
                        "(num_experts is 5) is missing"));
}

// Tensors of a dense layer do not make one of a layer that should have experts.
TEST(ExpertLayout, FB177_DenseTensorsInPlaceOfExpertsAreSurplusAndExpertsMissing) {
  const NameTable table = dense_names(sparse_spec());
  auto dense = manifest_in(table, NameForm::kOnly);
  EXPECT_THAT(fault_of(dense, table),
              HasSubstr("\"model.layers.1.mlp.experts.0.down_proj.weight\" [6, 9]"));
  for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
    const Shape shape = std::string_view(part) == "down_proj" ? Shape{6, 10} : Shape{10, 6};
    dense.push_back(
        {fmt::format("model.layers.1.mlp.{}.weight", part), DType::kBFloat16, shape, {}});
  }
  EXPECT_THAT(fault_of(dense, table),
              AllOf(HasSubstr("tensor \"model.layers.1.mlp.experts.0.down_proj.weight\" [6, 9] "
                              "(num_experts is 5) is missing"),
                    HasSubstr("tensor \"model.layers.1.mlp.down_proj.weight\" [6, 10] is surplus"),
                    HasSubstr("tensor \"model.layers.1.mlp.gate_proj.weight\" [10, 6] is surplus"),
                    HasSubstr("tensor \"model.layers.1.mlp.up_proj.weight\" [10, 6] is surplus")));
}

TEST(ExpertLayout, ExpertsBeyondTheCountAreSurplus) {
  const NameTable table = dense_names(sparse_spec());
  auto manifest = manifest_in(table, NameForm::kSeparate);
  manifest.push_back({"model.layers.1.mlp.experts.5.up_proj.weight", DType::kBFloat16, {9, 6}, {}});
  EXPECT_THAT(fault_of(manifest, table), HasSubstr("experts.5.up_proj.weight\" [9, 6] is surplus"));
}

TEST(ExpertLayout, ARouterOfTheWrongSizeIsNamedWithTheKeyOfTheCount) {
  const NameTable table = dense_names(sparse_spec());
  auto manifest = manifest_in(table, NameForm::kSeparate);
  std::ranges::find(manifest, "model.layers.1.mlp.gate.weight", &ManifestEntry::name)->shape =
      Shape{6, 6};
  EXPECT_THAT(fault_of(manifest, table),
              HasSubstr("tensor \"model.layers.1.mlp.gate.weight\" has shape [6, 6], expected "
                        "[5, 6] (num_experts is 5)"));
}

TEST(ExpertLayout, TheBfloat16ProfileLeavesTheRouterItsType) {
  NameTable table = dense_names(sparse_spec());
  table.matrix_dtype = DType::kBFloat16;
  auto manifest = manifest_in(table, NameForm::kSeparate);
  for (ManifestEntry& entry : manifest) entry.dtype = DType::kFloat32;
  ASSERT_TRUE(resolve_layout(manifest, &table).ok());
  const auto type_of = [&](std::string_view slot) {
    return table.slots[size_t(table.slot_index(slot))].dtype;
  };
  EXPECT_EQ(type_of("layers.1.router"), DType::kFloat32);
  EXPECT_EQ(type_of("layers.1.experts_gate_up"), DType::kBFloat16);
  // --dtype rounds every weight.
  table.dtype = DType::kFloat16;
  ASSERT_TRUE(resolve_layout(manifest, &table).ok());
  EXPECT_EQ(type_of("layers.1.router"), DType::kFloat16);
}

// bfloat16 of every element of a tensor, different in each place.
std::vector<std::byte> numbered(int64_t count, int from) {
  std::vector<std::byte> bytes(size_t(count) * 2);
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t value = bf16_from_float(float((from + i) % 251) - 125.0f);
    std::memcpy(bytes.data() + 2 * i, &value, 2);
  }
  return bytes;
}

// What one form wrote is read in the other, in one go and in ranges that cross experts.
TEST(ExpertWeights, BothFormsNameTheSameRows) {
  NameTable table = dense_names(sparse_spec());
  ASSERT_TRUE(resolve_layout(manifest_in(table, NameForm::kGrouped), &table).ok());
  std::vector<std::byte> region(table.total_bytes);
  const WeightEntry& whole = *table.find("model.layers.1.mlp.experts.gate_up_proj");
  const auto bytes = numbered(whole.shape.num_elements(), 3);
  for (const int64_t cut : {0, 1, 17, 18, 40, 90}) {
    std::ranges::fill(region, std::byte{0});
    write_rows(table, whole, DType::kBFloat16, cut, 90 - cut, bytes.data() + cut * 12,
               region.data());
    write_rows(table, whole, DType::kBFloat16, 0, cut, bytes.data(), region.data());
    for (int64_t expert = 0; expert < 5; ++expert) {
      for (const bool up : {false, true}) {
        const auto& entry = *table.find("model.layers.1.mlp.experts." + std::to_string(expert) +
                                        (up ? ".up_proj.weight" : ".gate_proj.weight"));
        std::vector<std::byte> found(9 * 12);
        read_rows(table, entry, DType::kBFloat16, 0, 9, region.data(), found.data());
        const auto from = bytes.begin() + (expert * 18 + (up ? 9 : 0)) * 12;
        EXPECT_TRUE(std::equal(found.begin(), found.end(), from)) << entry.name << " cut " << cut;
      }
    }
  }
  std::vector<std::byte> back(bytes.size());
  read_rows(table, whole, DType::kBFloat16, 0, 90, region.data(), back.data());
  EXPECT_EQ(back, bytes);
  std::vector<std::byte> other = region;
  EXPECT_FALSE(rows_differ(table, whole, 0, 90, region.data(), other.data()));
  write_rows(table, *table.find("model.layers.1.mlp.experts.4.up_proj.weight"), DType::kBFloat16, 8,
             1, numbered(6, 200).data(), other.data());
  EXPECT_TRUE(rows_differ(table, whole, 0, 90, region.data(), other.data()));
  EXPECT_TRUE(rows_differ(table, whole, 89, 1, region.data(), other.data()));
  EXPECT_FALSE(rows_differ(table, whole, 0, 89, region.data(), other.data()));
}

TEST(ExpertWeights, EachExpertIsAMatrixOfItsOwn) {
  auto table = std::make_shared<NameTable>(dense_names(sparse_spec()));
  ASSERT_TRUE(resolve_layout(manifest_in(*table, NameForm::kSeparate), table.get()).ok());
  auto region = *Region::create(int64_t(table->total_bytes));
  const auto bytes = numbered(6 * 9, 40);
  write_rows(*table, *table->find("model.layers.1.mlp.experts.2.down_proj.weight"),
             DType::kBFloat16, 0, 6, bytes.data(), region->data());
  const WeightSet weights(table, region, 0, 1);
  const kernels::PackedStack stack = weights.stack(table->slot_index("layers.1.experts_down"));
  EXPECT_EQ(stack.count, 5);
  std::vector<std::byte> found(bytes.size());
  kernels::unpack_rows(stack.at(2), 0, 6, found.data());
  EXPECT_EQ(found, bytes);
  kernels::unpack_rows(stack.at(3), 0, 6, found.data());
  EXPECT_EQ(found, std::vector<std::byte>(bytes.size()));
}

// 48 layers of 128 experts: 18,432 tensors and as many look-ups.
TEST(ExpertNames, ManyAreFoundQuickly) {
  DecoderSpec spec = sparse_spec();
  spec.layers = 48;
  spec.layer.assign(48, {.sparse = true});
  spec.experts.count = 128;
  NameTable table = dense_names(spec);
  EXPECT_EQ(table.slots.size(), 48u * 7 + 3);
  const auto manifest = manifest_in(table, NameForm::kSeparate);
  EXPECT_EQ(manifest.size(), 48u * (128 * 3 + 7) + 3);
  EXPECT_TRUE(resolve_layout(manifest, &table).ok());
}

}  // namespace
}  // namespace rlgen::models
