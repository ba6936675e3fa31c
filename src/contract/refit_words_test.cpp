#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "contract/async_rollouts.h"
#include "contract/error_type.h"
#include "contract/media_column_spec.h"
#include "contract/refit_deadline.h"

namespace rlgen {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using MaybeSpec = std::optional<MediaColumnSpec>;

TEST(MediaColumns, TheOneThatIsReportedIsAgreed) {
  const MediaColumnSpec spec{.pixel_dtype = DType::kBFloat16, .patch_size = 14};
  EXPECT_EQ(*agreed_media_columns({}), std::nullopt);
  EXPECT_EQ(*agreed_media_columns(std::vector<MaybeSpec>(3)), std::nullopt);
  EXPECT_EQ(*agreed_media_columns(std::vector<MaybeSpec>{std::nullopt, spec, spec}), spec);
}

TEST(MediaColumns, DifferentOnesAreRefused) {
  const MediaColumnSpec spec{.pixel_dtype = DType::kBFloat16, .patch_size = 14};
  for (const MediaColumnSpec& other :
       {MediaColumnSpec{DType::kFloat32, 14}, MediaColumnSpec{DType::kBFloat16, 16}}) {
    const Status error =
        agreed_media_columns(std::vector<MaybeSpec>{spec, std::nullopt, other}).status();
    EXPECT_EQ(error_kind(error), ErrorKind::kRuntimeError);
    EXPECT_THAT(message_of(error), HasSubstr("workers pinned different media column specs"));
  }
}

TEST(RefitDeadline, T22_ADeadlineThatNobodyKeepsIsRefusedByItsKey) {
  EXPECT_TRUE(reject_unenforceable_refit_deadline("SlowGeneration", std::nullopt).ok());
  const Status error = reject_unenforceable_refit_deadline("SlowGeneration", 12.5);
  EXPECT_EQ(error_kind(error), ErrorKind::kNotImplementedError);
  EXPECT_THAT(message_of(error),
              AllOf(HasSubstr("SlowGeneration"), HasSubstr("12.5"),
                    HasSubstr("async_rl.generation_fleet_health.refit_timeout_s")));
}

TEST(RefitDeadline, OnlyAFiniteNumberAboveZeroIsOne) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(error_kind(reject_unenforceable_refit_deadline("x", bad)), ErrorKind::kValueError);
    EXPECT_FALSE(check_refit_deadline(bad).ok());
  }
  EXPECT_TRUE(check_refit_deadline(0.5).ok());
}

bool use_async(const json& config) {
  const auto result = should_use_async_rollouts(config);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(false);
}

TEST(AsyncRollouts, T36_TheTable) {
  EXPECT_FALSE(use_async(nullptr));
  EXPECT_FALSE(use_async(json::object()));
  EXPECT_FALSE(use_async({{"backend", "other"}}));
  EXPECT_TRUE(use_async({{"backend", "rlgen"}}));
  EXPECT_TRUE(use_async({{"backend", "dynamo"}}));
  EXPECT_FALSE(use_async({{"backend", "sglang"}}));
  EXPECT_TRUE(use_async({{"backend", "sglang"}, {"use_async_rollouts", true}}));
  EXPECT_FALSE(use_async({{"backend", "sglang"}, {"use_async_rollouts", false}}));
  EXPECT_FALSE(use_async({{"backend", "vllm"}}));
  EXPECT_FALSE(use_async({{"backend", "vllm"}, {"vllm_cfg", json::object()}}));
  EXPECT_TRUE(use_async({{"backend", "vllm"}, {"vllm_cfg", {{"async_engine", true}}}}));
  EXPECT_TRUE(use_async({{"backend", "trtllm"}, {"trtllm_cfg", {{"async_engine", true}}}}));
  EXPECT_TRUE(use_async({{"backend", "megatron"}}));
}

TEST(AsyncRollouts, T36_TheAssertionsSayWhatToDo) {
  for (const json& config : {json{{"backend", "trtllm"}},
                             json{{"backend", "trtllm"}, {"trtllm_cfg", {{"async_engine", 0}}}}}) {
    const Status error = should_use_async_rollouts(config).status();
    EXPECT_EQ(error_kind(error), ErrorKind::kAssertionError);
    EXPECT_THAT(message_of(error),
                AllOf(HasSubstr("trtllm_cfg.async_engine=true"), HasSubstr("no longer supported")));
  }
  const Status error =
      should_use_async_rollouts(
          json{{"backend", "megatron"}, {"mcore_generation_config", {{"async_engine", false}}}})
          .status();
  EXPECT_EQ(error_kind(error), ErrorKind::kAssertionError);
  EXPECT_THAT(message_of(error),
              AllOf(HasSubstr("policy.generation.mcore_generation_config.async_engine"),
                    HasSubstr("removed")));
}

}  // namespace
}  // namespace rlgen
