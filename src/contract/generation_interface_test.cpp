#include "contract/generation_interface.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "contract/error_type.h"
#include "contract/warn_once.h"

namespace rlgen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Number, result, name, parameters and arguments of each abstract member.
#define RLGEN_MEMBERS(MEMBER)                                                                     \
  MEMBER(0, StatusOr<GenerationOutputSpec>, generate, (const GenerationDatumSpec& a, bool b),     \
         (a, b))                                                                                  \
  MEMBER(1, Status, prepare_for_generation, (std::span<const std::string> a), (a))                \
  MEMBER(2, Status, finish_generation, (bool a), (a))                                             \
  MEMBER(3, Status, shutdown, (), ())                                                             \
  MEMBER(4, Status, pause_generation, (std::string_view a), (a))                                  \
  MEMBER(5, Status, continue_generation, (), ())                                                  \
  MEMBER(6, StatusOr<std::optional<std::string>>, restart_shard, (int32_t a), (a))                \
  MEMBER(7, StatusOr<PendingStatus>, shard_liveness_ref, (int32_t a), (a))                        \
  MEMBER(8, Status, attach_fleet_health, (GenerationFleetHealth * a, HealthyShardSelector * b),   \
         (a, b))                                                                                  \
  MEMBER(9, StatusOr<std::vector<PendingStatus>>, init_collective,                                \
         (const std::string& a, int32_t b, int32_t c, int32_t d), (a, b, c, d))                   \
  MEMBER(10, StatusOr<std::optional<std::vector<std::string>>>, prepare_refit_info,               \
         (const std::optional<std::vector<ManifestEntry>>& a), (a))                               \
  MEMBER(11, StatusOr<std::vector<PendingStatus>>, update_weights_via_ipc_zmq, (), ())            \
  MEMBER(12, StatusOr<std::vector<PendingStatus>>, update_weights_from_collective,                \
         (std::optional<double> a), (a))                                                          \
  MEMBER(13, Status, prepare_nccl_reshard_refit_info, (const nlohmann::json& a), (a))             \
  MEMBER(14, StatusOr<std::vector<PendingStatus>>, nccl_reshard_refit, (std::optional<double> a), \
         (a))                                                                                     \
  MEMBER(15, Status, set_rollout_weight_version, (WeightVersion a), (a))                          \
  MEMBER(16, StatusOr<std::optional<MediaColumnSpec>>, setup_token_capture,                       \
         (const nlohmann::json& a, const std::string& b, bool c), (a, b, c))

// Overrides the first `Count` members but the one numbered `Missing`: a class that is abstract
// exactly where that member is.
template <int Count, int Missing>
class Upto;
template <int Missing>
class Upto<0, Missing> : public GenerationInterface {
 public:
  Upto() : GenerationInterface("Toy") {}
};
#define RLGEN_STEP(number, result, name, parameters, arguments)                           \
  template <int Missing>                                                                  \
  class Upto<number + 1, Missing> : public Upto<number, Missing> {                        \
   public:                                                                                \
    result name parameters override { return this->GenerationInterface::name arguments; } \
  };                                                                                      \
  template <>                                                                             \
  class Upto<number + 1, number> : public Upto<number, number> {};
RLGEN_MEMBERS(RLGEN_STEP)
#undef RLGEN_STEP

constexpr int kMembers = 17;
using Whole = Upto<kMembers, -1>;

TEST(GenerationInterface, T35_EachOfTheSeventeenIsAbstract) {
  static_assert(!std::is_abstract_v<Whole>);
#define RLGEN_CHECK(number, result, name, parameters, arguments) \
  static_assert(std::is_abstract_v<Upto<kMembers, number>>, #name);
  RLGEN_MEMBERS(RLGEN_CHECK)
#undef RLGEN_CHECK
}

TEST(GenerationInterface, T35_TheirBodiesNameTheClassAndTheMember) {
  Whole toy;
  GenerationInterface& face = toy;
  const auto expect = [](const Status& status, const char* member) {
    EXPECT_EQ(error_kind(status), ErrorKind::kNotImplementedError);
    EXPECT_THAT(message_of(status), HasSubstr(std::string("Toy.") + member));
  };
  expect(face.generate({}, false).status(), "generate");
  expect(face.prepare_for_generation({}), "prepare_for_generation");
  expect(face.finish_generation(true), "finish_generation");
  expect(face.shutdown(), "shutdown");
  expect(face.pause_generation("keep"), "pause_generation");
  expect(face.continue_generation(), "continue_generation");
  expect(face.restart_shard(0).status(), "restart_shard");
  expect(face.shard_liveness_ref(0).status(), "shard_liveness_ref");
  expect(face.attach_fleet_health(nullptr, nullptr), "attach_fleet_health");
  expect(face.init_collective("", 1, 2, 1).status(), "init_collective");
  expect(face.prepare_refit_info(std::nullopt).status(), "prepare_refit_info");
  expect(face.update_weights_via_ipc_zmq().status(), "update_weights_via_ipc_zmq");
  expect(face.update_weights_from_collective({}).status(), "update_weights_from_collective");
  expect(face.prepare_nccl_reshard_refit_info({}), "prepare_nccl_reshard_refit_info");
  expect(face.nccl_reshard_refit({}).status(), "nccl_reshard_refit");
  expect(face.set_rollout_weight_version(0), "set_rollout_weight_version");
  expect(face.setup_token_capture({}, "", false).status(), "setup_token_capture");
}

TEST(GenerationInterface, WhatASettingAskedForNamesTheSetting) {
  Whole toy;
  EXPECT_THAT(message_of(toy.attach_fleet_health(nullptr, nullptr)),
              HasSubstr("async_rl.generation_fleet_health.enabled=true"));
  EXPECT_THAT(message_of(toy.setup_token_capture({}, "", false).status()),
              HasSubstr("token_capture.enabled=true"));
}

TEST(GenerationInterface, TheOthersHaveTheirDefaults) {
  Whole toy;
  EXPECT_TRUE(GenerationInterface::validate_settings(nullptr).ok());
  toy.log_shard_gpu_state(0, "label", std::chrono::seconds(30));
  EXPECT_FALSE(toy.requires_kv_scale_sync());
  EXPECT_EQ(*toy.get_collective_sender_spec(), CollectiveSenderSpec{});
  EXPECT_EQ(*toy.get_inference_world_size(), std::nullopt);
  EXPECT_FALSE(*toy.invalidate_kv_cache());
  EXPECT_FALSE(toy.blocks_training());
  EXPECT_FALSE(toy.wake_carries_weight_updates());
  toy.clear_logger_metrics();
  toy.snapshot_step_metrics();
  EXPECT_THAT(toy.get_logger_metrics(), IsEmpty());
  EXPECT_THAT(toy.get_step_metrics(), IsEmpty());
  EXPECT_THAT(toy.drain_latest_logger_metrics(), IsEmpty());
}

class FiveOnly final : public UnsupportedByDefault {
 public:
  explicit FiveOnly(std::string name, LogSink log = {})
      : UnsupportedByDefault(std::move(name), std::move(log)) {}
  StatusOr<std::vector<PendingStatus>> init_collective(const std::string&, int32_t, int32_t,
                                                       int32_t) override {
    return std::vector<PendingStatus>();
  }
  StatusOr<GenerationOutputSpec> generate(const GenerationDatumSpec&, bool) override {
    return GenerationOutputSpec();
  }
  Status prepare_for_generation(std::span<const std::string>) override { return {}; }
  Status finish_generation(bool) override { return {}; }
  Status shutdown() override { return {}; }
};

TEST(UnsupportedByDefault, T35_FillsAllButFive) {
  static_assert(std::is_abstract_v<UnsupportedByDefault>);
  static_assert(!std::is_abstract_v<FiveOnly>);
  FiveOnly five("FiveOnly");
  EXPECT_TRUE(five.generate({}, true).ok());
  EXPECT_THAT(message_of(five.restart_shard(0).status()), HasSubstr("FiveOnly.restart_shard"));
  EXPECT_THAT(message_of(five.pause_generation("keep")), HasSubstr("FiveOnly.pause_generation"));
}

TEST(GenerationInterface, T25_TheDefaultPauseWarnsOnceForEachClass) {
  process_warned_names().forget();
  std::vector<std::string> lines;
  const LogSink log = [&](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(line);
  };
  FiveOnly first("First", log);
  FiveOnly again("First", log);
  FiveOnly second("Second", log);
  for (int i = 0; i < 3; ++i) {
    for (FiveOnly* toy : {&first, &again, &second}) {
      EXPECT_FALSE(*toy->pause_generation_for_refit(true, std::nullopt));
      EXPECT_FALSE(*toy->resume_generation_after_refit(std::nullopt));
    }
  }
  EXPECT_THAT(lines, ElementsAre(HasSubstr("First"), HasSubstr("Second")));
}

}  // namespace
}  // namespace rlgen
