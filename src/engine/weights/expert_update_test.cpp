#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/hash.h"
#include "engine/weights/read_back.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"
#include "models/families/decoder_names.h"
#include "tensor/bfloat16.h"

// Updates of a model with experts: tensors one by one or grouped, in any order and in ranges
// (FB-084; Mixtral's names and loading: models/expert_weights_test.cpp and tests/parity).
namespace rlgen::engine {
namespace {

using models::NameForm;

models::DecoderSpec expert_spec(int32_t intermediate) {
  return test::tiny_expert_spec(
      "qwen3_moe",
      {.count = 6, .top_k = 2, .intermediate = intermediate, .count_key = "num_experts"});
}

std::vector<ManifestEntry> manifest_in(const models::NameTable& table, NameForm form,
                                       DType dtype = DType::kBFloat16) {
  std::vector<ManifestEntry> manifest;
  for (const models::WeightEntry& entry : table.entries) {
    if (entry.form == NameForm::kOnly || entry.form == form) {
      manifest.push_back({entry.name, dtype, entry.shape, {}});
    }
  }
  return manifest;
}

using Bytes = std::vector<std::byte>;

// The values of all tensors by name, in both forms; those of one slot are one matrix.
std::map<std::string, Bytes> values_of(const models::NameTable& table, int seed) {
  std::vector<Bytes> slots;
  std::mt19937 random{uint32_t(seed)};
  for (const models::WeightSlot& slot : table.slots) {
    Bytes& bytes = slots.emplace_back(size_t(slot.n * slot.k * slot.count) * 2);
    for (size_t i = 0; i < bytes.size(); i += 2) {
      const uint16_t value = bf16_from_float(float(random() % 4001) / 1000.0f - 2.0f);
      std::memcpy(&bytes[i], &value, 2);
    }
  }
  std::map<std::string, Bytes> values;
  for (const models::WeightEntry& entry : table.entries) {
    const Bytes& all = slots[size_t(entry.slot)];
    const int64_t row = entry.shape.num_elements() / entry.rows() * 2;
    values[entry.name] = {all.begin() + entry.row * row,
                          all.begin() + (entry.row + entry.rows()) * row};
  }
  return values;
}

class ExpertUpdate : public ::testing::TestWithParam<int32_t> {
 protected:
  UpdateSpec spec(WeightSerial serial, std::vector<ManifestEntry> manifest) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = std::move(manifest);
    return update;
  }

  // Ranges that end anywhere, in any order.
  Status write_in_pieces(const UpdateSpec& update, const std::map<std::string, Bytes>& values) {
    struct Piece {
      std::string name;
      size_t begin, end;
    };
    std::vector<Piece> pieces;
    for (const ManifestEntry& entry : update.manifest) {
      const size_t size = values.at(entry.name).size();
      for (size_t begin = 0; begin < size;) {
        const size_t end = std::min(size, begin + 1 + random_() % (size / 2 + 1));
        pieces.push_back({entry.name, begin, end});
        begin = end;
      }
    }
    std::ranges::shuffle(pieces, random_);
    for (const auto& [name, begin, end] : pieces) {
      const std::span<const std::byte> all = values.at(name);
      RLGEN_RETURN_IF_ERROR(
          store_.write(update.update_id, name, begin, all.subspan(begin, end - begin)));
    }
    return absl::OkStatus();
  }

  Status run(const UpdateSpec& update, const std::map<std::string, Bytes>& values) {
    RLGEN_RETURN_IF_ERROR(store_.begin(update));
    RLGEN_RETURN_IF_ERROR(write_in_pieces(update, values));
    RLGEN_RETURN_IF_ERROR(store_.prepare(update.update_id));
    return store_.commit(update.update_id);
  }

  void expect_served(const std::map<std::string, Bytes>& values) {
    for (const auto& [name, bytes] : values) {
      const auto found = read_tensor(*store_.current(), name, DType::kBFloat16);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, bytes) << name;
      EXPECT_EQ(*tensor_checksum(*store_.current(), name, DType::kBFloat16),
                digest_of(std::span<const std::byte>(bytes)).hex())
          << name;
    }
  }

  std::vector<std::string> served_names() {
    std::vector<std::string> names;
    for (const ManifestEntry& entry : store_.manifest()) names.push_back(entry.name);
    std::ranges::sort(names);
    return names;
  }

  std::vector<std::string> names_in(NameForm form) {
    std::vector<std::string> names;
    for (const ManifestEntry& entry : manifest_in(*table_, form)) names.push_back(entry.name);
    return names;
  }

  std::shared_ptr<const models::NameTable> table_ =
      std::make_shared<models::NameTable>(models::dense_names(expert_spec(GetParam())));
  std::mt19937 random_{7};
  ManualClock clock_;
  WeightStore store_{table_, {.clock = &clock_}};
};

TEST_P(ExpertUpdate, FB084_EitherFormInPiecesIsServedUnderBoth) {
  WeightSerial serial = 0;
  for (const NameForm form : {NameForm::kSeparate, NameForm::kGrouped, NameForm::kSeparate}) {
    const auto values = values_of(*table_, int(++serial));
    UpdateSpec update = spec(serial, manifest_in(*table_, form));
    for (ManifestEntry& entry : update.manifest) {
      entry.digest = digest_of(std::span<const std::byte>(values.at(entry.name))).hex();
    }
    ASSERT_EQ(run(update, values), absl::OkStatus());
    expect_served(values);
    EXPECT_EQ(served_names(), names_in(form));
    EXPECT_EQ(store_.last_report()->changed, store_.last_report()->tensors);
  }
}

TEST_P(ExpertUpdate, SubsetsComeInEitherForm) {
  auto served = values_of(*table_, 1);
  ASSERT_EQ(run(spec(1, manifest_in(*table_, NameForm::kSeparate)), served), absl::OkStatus());
  const auto next = values_of(*table_, 2);
  WeightSerial serial = 1;
  const auto update_one = [&](const std::string& name, NameForm form) {
    UpdateSpec update = spec(++serial, {{name, DType::kBFloat16, table_->find(name)->shape, {}}});
    update.base = WeightVersion(serial) - 1;
    ASSERT_EQ(run(update, next), absl::OkStatus());
    // Every name of those rows gives the new bytes, all others the old ones.
    const models::WeightEntry& sent = *table_->find(name);
    for (const models::WeightEntry& entry : table_->entries) {
      if (entry.slot != sent.slot) continue;
      const auto row = ptrdiff_t(next.at(name).size()) / sent.rows();
      for (int64_t r = std::max(sent.row, entry.row);
           r < std::min(sent.row + sent.rows(), entry.row + entry.rows()); ++r) {
        std::copy_n(next.at(name).begin() + (r - sent.row) * row, row,
                    served.at(entry.name).begin() + (r - entry.row) * row);
      }
    }
    expect_served(served);
    EXPECT_EQ(served_names(), names_in(form));
  };
  update_one("model.layers.1.mlp.experts.gate_up_proj", NameForm::kGrouped);
  update_one("model.norm.weight", NameForm::kGrouped);
  update_one("model.layers.0.mlp.experts.4.up_proj.weight", NameForm::kSeparate);
  update_one("model.layers.0.mlp.experts.down_proj", NameForm::kGrouped);
}

TEST_P(ExpertUpdate, TheTypeOfARowIsThatOfItsOtherName) {
  const auto values = values_of(*table_, 1);
  ASSERT_EQ(run(spec(1, manifest_in(*table_, NameForm::kSeparate)), values), absl::OkStatus());
  const Status refused =
      store_.begin(spec(2, manifest_in(*table_, NameForm::kGrouped, DType::kFloat32)));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(refused).find("sent as float32 and stored as bfloat16; set cast"),
            std::string::npos)
      << refused;
  UpdateSpec experts = spec(
      3, {{"model.layers.1.mlp.experts.down_proj", DType::kFloat32, Shape{6, 20, GetParam()}, {}}});
  experts.base = 1;
  EXPECT_NE(message_of(store_.begin(experts)).find("set cast"), std::string::npos);
}

TEST_P(ExpertUpdate, FB084_AMissingExpertIsNamed) {
  auto manifest = manifest_in(*table_, NameForm::kSeparate);
  std::erase_if(manifest, [](const ManifestEntry& entry) {
    return entry.name == "model.layers.1.mlp.experts.5.gate_proj.weight";
  });
  const Status refused = store_.begin(spec(1, manifest));
  EXPECT_NE(message_of(refused).find("model.layers.1.mlp.experts.5.gate_proj.weight"),
            std::string::npos)
      << refused;
  // Announced but not sent.
  const UpdateSpec whole = spec(2, manifest_in(*table_, NameForm::kSeparate));
  ASSERT_EQ(store_.begin(whole), absl::OkStatus());
  UpdateSpec sent = whole;
  sent.manifest = manifest;
  ASSERT_EQ(write_in_pieces(sent, values_of(*table_, 1)), absl::OkStatus());
  const Status incomplete = store_.prepare("u2");
  EXPECT_EQ(incomplete.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(message_of(incomplete).find("model.layers.1.mlp.experts.5.gate_proj.weight: byte 0"),
            std::string::npos)
      << incomplete;
}

// Whole experts of a grouped tensor are packed as they come where their rows fill tiles.
TEST_P(ExpertUpdate, WholeTilesOfAGroupedTensorAreNotHeldBack) {
  const auto values = values_of(*table_, 1);
  const UpdateSpec update = spec(1, manifest_in(*table_, NameForm::kGrouped));
  ASSERT_EQ(store_.begin(update), absl::OkStatus());
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  const Bytes& bytes = values.at(name);
  const size_t expert = bytes.size() / 6;
  ASSERT_EQ(store_.write("u1", name, expert, std::span(bytes).subspan(expert, 2 * expert)),
            absl::OkStatus());
  EXPECT_EQ(store_.staging_bytes(), 0);
  ASSERT_EQ(store_.write("u1", name, 0, std::span(bytes).first(40)), absl::OkStatus());
  EXPECT_EQ(store_.staging_bytes(), int64_t(bytes.size()));
}

// Matrices of whole tiles, and such that end within one.
INSTANTIATE_TEST_SUITE_P(Sizes, ExpertUpdate, ::testing::Values(16, 9),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace rlgen::engine
