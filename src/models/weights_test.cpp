#include "models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "models/families/decoder_names.h"
#include "tensor/bfloat16.h"

namespace rlgen::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DecoderSpec small_spec() {
  DecoderSpec spec{.family = "llama",
                   .vocab_rows = 20,
                   .hidden = 6,
                   .layers = 2,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_dim = 4,
                   .intermediate = 10};
  spec.layer.resize(2);
  return spec;
}

std::vector<ManifestEntry> manifest_of(const NameTable& table, DType dtype) {
  std::vector<ManifestEntry> manifest;
  for (const WeightEntry& entry : table.entries) {
    manifest.push_back({entry.name, dtype, entry.shape, {}});
  }
  return manifest;
}

ManifestEntry& at(std::vector<ManifestEntry>& manifest, std::string_view name) {
  return *std::ranges::find(manifest, name, &ManifestEntry::name);
}

std::string layout_fault(const std::vector<ManifestEntry>& manifest, NameTable table) {
  const Status status = resolve_layout(manifest, &table);
  return status.ok() ? "accepted" : message_of(status);
}

TEST(DenseNames, FusesProjectionsFromRowZeroUp) {
  const NameTable table = dense_names(small_spec());
  const WeightEntry* q = table.find("model.layers.1.self_attn.q_proj.weight");
  const WeightEntry* k = table.find("model.layers.1.self_attn.k_proj.weight");
  const WeightEntry* v = table.find("model.layers.1.self_attn.v_proj.weight");
  ASSERT_TRUE(q && k && v);
  EXPECT_EQ(q->slot, table.slot_index("layers.1.qkv"));
  EXPECT_TRUE(k->slot == q->slot && v->slot == q->slot);
  EXPECT_EQ(q->row, 0);
  EXPECT_EQ(k->row, 8);
  EXPECT_EQ(v->row, 12);
  const WeightSlot& slot = table.slots[size_t(q->slot)];
  EXPECT_EQ(slot.n, 16);
  EXPECT_EQ(slot.k, 6);
  EXPECT_EQ(table.find("model.layers.0.mlp.up_proj.weight")->row, 10);
  EXPECT_EQ(table.find("model.layers.0.mlp.down_proj.weight")->shape, (Shape{6, 10}));
  EXPECT_EQ(table.find("nothing"), nullptr);
  EXPECT_EQ(table.slot_index("nothing"), -1);
  EXPECT_EQ(table.entries.size(), 2u * 9 + 3);
}

TEST(DenseNames, TiedHeadIsTheEmbeddingsSlotUnderAnOptionalName) {
  DecoderSpec spec = small_spec();
  spec.tied_head = true;
  const NameTable table = dense_names(spec);
  EXPECT_EQ(table.slot_index("head"), -1);
  const WeightEntry* head = table.find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_TRUE(head->optional);
  EXPECT_EQ(head->slot, table.slot_index("embedding"));
}

TEST(DenseNames, BiasesAndHeadNorms) {
  DecoderSpec spec = small_spec();
  spec.qkv_bias = spec.output_bias = spec.mlp_bias = spec.qk_norm = true;
  const NameTable table = dense_names(spec);
  EXPECT_EQ(table.find("model.layers.0.self_attn.v_proj.bias")->row, 12);
  EXPECT_EQ(table.find("model.layers.0.self_attn.q_norm.weight")->shape, Shape{4});
  const WeightSlot& bias = table.slots[size_t(table.slot_index("layers.0.gate_up_bias"))];
  EXPECT_EQ(bias.kind, SlotKind::kVector);
  EXPECT_EQ(bias.k, 20);
}

TEST(ResolveLayout, PlacesSlotsOneAfterTheOther) {
  NameTable table = dense_names(small_spec());
  ASSERT_TRUE(resolve_layout(manifest_of(table, DType::kFloat16), &table).ok());
  size_t offset = 0;
  for (const WeightSlot& slot : table.slots) {
    EXPECT_EQ(slot.offset, offset) << slot.name;
    EXPECT_EQ(slot.bytes % 64, 0u);
    EXPECT_EQ(slot.dtype, slot.kind == SlotKind::kVector ? DType::kFloat32 : DType::kFloat16);
    offset += slot.bytes;
  }
  EXPECT_EQ(table.total_bytes, offset);
}

TEST(ResolveLayout, NamesEveryFaultWithBothValues) {
  const NameTable table = dense_names(small_spec());
  std::vector<ManifestEntry> manifest = manifest_of(table, DType::kBFloat16);
  at(manifest, "model.norm.weight").shape = Shape{7};
  at(manifest, "lm_head.weight").name = "lm_haed.weight";
  manifest.push_back({"model.embed_tokens.weight", DType::kBFloat16, {20, 6}, {}});
  EXPECT_THAT(layout_fault(manifest, table),
              AllOf(HasSubstr("\"model.norm.weight\" has shape [7], expected [6]"),
                    HasSubstr("\"lm_haed.weight\" [20, 6] is surplus"),
                    HasSubstr("\"lm_head.weight\" [20, 6] is missing"),
                    HasSubstr("\"model.embed_tokens.weight\" is listed twice")));
}

TEST(ResolveLayout, ShortensAMessageAboutEverything) {
  const NameTable table = dense_names(small_spec());
  EXPECT_THAT(layout_fault({}, table), AllOf(HasSubstr("is missing"), Not(HasSubstr("more"))));
  DecoderSpec large = small_spec();
  large.layers = 9;
  large.layer.resize(9);
  EXPECT_THAT(layout_fault({}, dense_names(large)), HasSubstr("; and 60 more"));
}

TEST(ResolveLayout, FB164_SurplusBiasesAreAnError) {
  const NameTable table = dense_names(small_spec());
  std::vector<ManifestEntry> manifest = manifest_of(table, DType::kBFloat16);
  manifest.push_back({"model.layers.0.mlp.gate_proj.bias", DType::kBFloat16, {10}, {}});
  EXPECT_THAT(layout_fault(manifest, table), HasSubstr("gate_proj.bias\" [10] is surplus"));
}

TEST(ResolveLayout, PassesOverRotaryBuffers) {
  const NameTable table = dense_names(small_spec());
  std::vector<ManifestEntry> manifest = manifest_of(table, DType::kBFloat16);
  manifest.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kFloat32, {2}, {}});
  EXPECT_EQ(layout_fault(manifest, table), "accepted");
}

TEST(ResolveLayout, TypesWithinAMatrixAgree) {
  const NameTable table = dense_names(small_spec());
  std::vector<ManifestEntry> manifest = manifest_of(table, DType::kBFloat16);
  at(manifest, "model.norm.weight").dtype = DType::kFloat32;
  EXPECT_EQ(layout_fault(manifest, table), "accepted");
  at(manifest, "model.layers.0.self_attn.k_proj.weight").dtype = DType::kFloat32;
  EXPECT_THAT(layout_fault(manifest, table), AllOf(HasSubstr("q_proj.weight\" has type BF16"),
                                                   HasSubstr("k_proj.weight\" has F32")));
  at(manifest, "model.layers.0.self_attn.k_proj.weight").dtype = DType::kInt8;
  EXPECT_THAT(layout_fault(manifest, table), HasSubstr("has type I8; weights may be"));
}

// Small numbers that every weight type holds exactly.
std::vector<std::byte> values_as(DType dtype, int64_t count, int64_t from) {
  std::vector<std::byte> bytes(size_t(count) * size_t(size_of(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const float value = float((from + i) % 127) - 63.0f;
    const uint16_t half =
        dtype == DType::kBFloat16 ? bf16_from_float(value) : f16_from_float(value);
    std::memcpy(bytes.data() + i * size_of(dtype),
                dtype == DType::kFloat32 ? static_cast<const void*>(&value) : &half,
                size_t(size_of(dtype)));
  }
  return bytes;
}

class StoredTypes : public ::testing::TestWithParam<std::pair<DType, DType>> {};

TEST_P(StoredTypes, RowsComeBackAsTheyWent) {
  const auto [stored, sent] = GetParam();
  NameTable table = dense_names(small_spec());
  ASSERT_TRUE(resolve_layout(manifest_of(table, stored), &table).ok());
  std::vector<std::byte> region(table.total_bytes);
  for (const WeightEntry& entry : table.entries) {
    const auto bytes = values_as(sent, entry.shape.num_elements(), entry.slot * 31 + entry.row);
    const int64_t rows = entry.rows();
    const int64_t row_bytes = int64_t(bytes.size()) / rows;
    const int64_t cut = rows / 3;
    write_rows(table, entry, sent, cut, rows - cut, bytes.data() + cut * row_bytes, region.data());
    write_rows(table, entry, sent, 0, cut, bytes.data(), region.data());
  }
  for (const WeightEntry& entry : table.entries) {
    const auto bytes = values_as(sent, entry.shape.num_elements(), entry.slot * 31 + entry.row);
    std::vector<std::byte> back(bytes.size());
    read_rows(table, entry, sent, 0, entry.rows(), region.data(), back.data());
    EXPECT_EQ(back, bytes) << entry.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, StoredTypes,
                         ::testing::Values(std::pair{DType::kFloat32, DType::kFloat32},
                                           std::pair{DType::kBFloat16, DType::kBFloat16},
                                           std::pair{DType::kFloat16, DType::kFloat16},
                                           std::pair{DType::kBFloat16, DType::kFloat32},
                                           std::pair{DType::kFloat32, DType::kFloat16}));

TEST(WeightSet, ShowsMatricesAndVectors) {
  auto table = std::make_shared<NameTable>(dense_names(small_spec()));
  ASSERT_TRUE(resolve_layout(manifest_of(*table, DType::kFloat32), table.get()).ok());
  auto region = *Region::create(int64_t(table->total_bytes));
  const float norm[6] = {1, 2, 3, 4, 5, 6};
  write_rows(*table, *table->find("model.norm.weight"), DType::kFloat32, 0, 6,
             reinterpret_cast<const std::byte*>(norm), region->data());
  const WeightSet weights(table, region, 3, 9);
  const auto vector = weights.vector(table->slot_index("final_norm"));
  EXPECT_TRUE(std::ranges::equal(vector, norm));
  const kernels::PackedMatrix down = weights.matrix(table->slot_index("layers.0.down"));
  EXPECT_EQ(down.n, 6);
  EXPECT_EQ(down.k, 10);
  EXPECT_EQ(weights.bias(-1), nullptr);
  EXPECT_EQ(weights.version(), 3);
  EXPECT_EQ(weights.serial(), 9u);
}

TEST(Layout, ATypeForAllWeights) {
  NameTable table = dense_names(small_spec());
  table.dtype = DType::kBFloat16;
  auto manifest = manifest_of(table, DType::kFloat32);
  // Without it, the three would have to agree.
  at(manifest, "model.layers.0.self_attn.k_proj.weight").dtype = DType::kFloat16;
  ASSERT_TRUE(resolve_layout(manifest, &table).ok());
  for (const WeightSlot& slot : table.slots) {
    EXPECT_EQ(slot.dtype, slot.kind == SlotKind::kMatrix ? DType::kBFloat16 : DType::kFloat32);
  }
  std::vector<std::byte> region(table.total_bytes);
  const float third = 1.0f / 3.0f;
  const float rounded = float_from_bf16(bf16_from_float(third));
  for (const std::string name : {"model.norm.weight", "model.layers.0.mlp.down_proj.weight"}) {
    const WeightEntry& entry = *table.find(name);
    const std::vector<float> sent(size_t(entry.shape.num_elements()), third);
    const auto* const bytes = reinterpret_cast<const std::byte*>(sent.data());
    write_rows(table, entry, DType::kFloat32, 0, entry.rows(), bytes, region.data());
    std::vector<float> back(sent.size());
    read_rows(table, entry, DType::kFloat32, 0, entry.rows(), region.data(),
              reinterpret_cast<std::byte*>(back.data()));
    EXPECT_EQ(back, std::vector<float>(sent.size(), rounded)) << name;
  }
}

}  // namespace
}  // namespace rlgen::models
