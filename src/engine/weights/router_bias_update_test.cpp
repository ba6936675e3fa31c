#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"
#include "models/registry.h"

// Biases of routers that are not finite are refused, whatever an update asks for.
namespace rlgen::engine {
namespace {

using test::tensor_bytes;

models::DecoderSpec biased_spec(const std::string& family) {
  models::DecoderSpec spec =
      test::tiny_expert_spec(family, {.count = 5, .top_k = 2, .intermediate = 9});
  if (family == "gpt_oss") {
    spec.sinks = spec.experts.router_bias = spec.experts.bias = true;
  } else {
    spec.latent = {.rank = 6, .plain = 4, .rotated = 2, .value = 3};
    spec.experts.choice_bias = true;
  }
  return spec;
}

struct BiasedFamily {
  const char* family;
  const char* bias;  // in the last layer
};

class RouterBiasUpdate : public ::testing::TestWithParam<BiasedFamily> {
 protected:
  UpdateSpec update_of(WeightSerial serial) {
    UpdateSpec update = test::numbered(serial);
    update.manifest = test::manifest_of(*table_);
    std::erase_if(update.manifest, [&](const ManifestEntry& entry) {
      return table_->find(entry.name)->form == models::NameForm::kGrouped;
    });
    return update;
  }

  // Everything, `name` with `value` in place of its element 3.
  Status write_with(const UpdateSpec& update, const std::string& name, float value) {
    for (const ManifestEntry& entry : update.manifest) {
      auto bytes = tensor_bytes(entry, int(update.serial));
      if (entry.name == name) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(bits));
        const auto upper = uint16_t(bits >> 16);
        std::memcpy(bytes.data() + 3 * sizeof(upper), &upper, sizeof(upper));
      }
      RLGEN_RETURN_IF_ERROR(store_.write(update.update_id, entry.name, 0, bytes));
    }
    return absl::OkStatus();
  }

  const std::string family_ = GetParam().family;
  std::shared_ptr<const models::NameTable> table_ = std::make_shared<models::NameTable>(
      models::find_family(family_)->names(biased_spec(family_)));
  ManualClock clock_;
  WeightStore store_{table_, {.clock = &clock_}};
};

TEST_P(RouterBiasUpdate, FB181_AValueThatIsNotFiniteIsRefusedThoughNobodyAsked) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::string name = GetParam().bias;
  ASSERT_NE(table_->find(name), nullptr);
  const UpdateSpec first = update_of(1);
  ASSERT_EQ(store_.begin(first), absl::OkStatus());
  ASSERT_EQ(write_with(first, name, 0.5f), absl::OkStatus());
  ASSERT_EQ(store_.prepare("u1"), absl::OkStatus());
  ASSERT_EQ(store_.commit("u1"), absl::OkStatus());
  WeightSerial serial = 1;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    const UpdateSpec update = update_of(++serial);
    ASSERT_FALSE(update.check_finite);
    ASSERT_EQ(store_.begin(update), absl::OkStatus());
    ASSERT_EQ(write_with(update, name, bad), absl::OkStatus());
    const Status refused = store_.prepare(update.update_id);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(refused).find("tensor " + name + ": element 3 is NaN or infinite"),
              std::string::npos)
        << refused;
    EXPECT_EQ(store_.current()->serial(), 1u);
  }
}

// The largest float is a number, and other tensors are looked at where asked for alone.
TEST_P(RouterBiasUpdate, FB181_OtherValuesAndOtherTensorsAreTaken) {
  const UpdateSpec large = update_of(1);
  ASSERT_EQ(store_.begin(large), absl::OkStatus());
  ASSERT_EQ(write_with(large, GetParam().bias, -3.0e38f), absl::OkStatus());
  EXPECT_EQ(store_.prepare("u1"), absl::OkStatus());
  EXPECT_EQ(store_.commit("u1"), absl::OkStatus());
  const UpdateSpec other = update_of(2);
  ASSERT_EQ(store_.begin(other), absl::OkStatus());
  ASSERT_EQ(write_with(other, "model.norm.weight", std::numeric_limits<float>::infinity()),
            absl::OkStatus());
  EXPECT_EQ(store_.prepare("u2"), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    Families, RouterBiasUpdate,
    ::testing::Values(BiasedFamily{"deepseek_v3",
                                   "model.layers.1.mlp.gate.e_score_correction_bias"},
                      BiasedFamily{"gpt_oss", "model.layers.1.mlp.router.bias"}),
    [](const auto& info) { return std::string(info.param.family); });

}  // namespace
}  // namespace rlgen::engine
