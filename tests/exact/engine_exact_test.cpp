#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <optional>
#include <string>
#include <vector>

#include "base/float_mode.h"
#include "exact/digest_file.h"
#include "exact/exact_requests.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// The calling thread flushes subnormals, rounds down, or both, until this dies.
class HostileMode {
 public:
  HostileMode(bool flushes, bool rounds_down) : before_(float_control_word()) {
#if defined(__x86_64__)
    constexpr uint64_t kFlush = 0x8040;
#else
    constexpr uint64_t kFlush = uint64_t{1} << 24;
#endif
    if (rounds_down) std::fesetround(FE_DOWNWARD);
    if (flushes) set_float_control_word(float_control_word() | kFlush);
  }
  HostileMode(const HostileMode&) = delete;
  HostileMode& operator=(const HostileMode&) = delete;
  ~HostileMode() {
    std::fesetround(FE_TONEAREST);
    set_float_control_word(before_);
  }

 private:
  uint64_t before_;
};

class RoundedProfile : public ::testing::TestWithParam<kernels::Profile> {};
INSTANTIATE_TEST_SUITE_P(EngineExact, RoundedProfile,
                         ::testing::Values(kernels::Profile::kBFloat16,
                                           kernels::Profile::kBFloat16Amx),
                         [](const auto& info) {
                           return std::string(kernels::profile_name(info.param));
                         });

TEST_P(RoundedProfile, IsExactToo) {
  DigestStream all;
  for (const char* name : {"gpt_oss", "llama_tied", "smollm3", "mistral", "mixtral", "olmoe",
                           "qwen2_moe_window", "qwen3_moe_step"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(12), loaded);
    for (const DType kv_dtype : {DType::kFloat32, DType::kBFloat16}) {
      Settings settings{.isa = "scalar", .kv_dtype = kv_dtype, .profile = GetParam()};
      const Outcomes alone = run_alone(loaded, settings, requests);
      settings.threads = 2;
      settings.budget = 19;
      settings.kv_blocks = 24;
      for (const kernels::Isa isa : kernels::available_isas()) {
        settings.isa = kernels::isa_name(isa);
        expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
      }
      const Outcomes unrounded = run_alone(loaded, {.kv_dtype = kv_dtype}, requests);
      EXPECT_NE(digest_of_outcome(alone.at(2)), digest_of_outcome(unrounded.at(2)));
      for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
    }
  }
  const std::string name(kernels::profile_name(GetParam()));
  EXPECT_TRUE(report_digest("engine " + name + " profile", all.digest()));
}

// Hosts set rounding and flush modes for their own ends, in the thread that calls: before the
// checkpoint is opened and before the engine's threads are made. Rotary frequencies of each kind.
TEST(EngineExact, TheCallersFloatModesDoNotReachAnyThread) {
  constexpr std::pair<bool, bool> kHostileModes[] = {{true, false}, {false, true}, {true, true}};
  for (const char* name : {"llama_tied", "llama_rope_llama3", "llama_rope_yarn",
                           "llama_rope_longrope", "qwen2_moe_window", "deepseek_v3"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(12), loaded);
    for (const kernels::Profile profile : kernels::kProfiles) {
      const Settings settings{.threads = 2,
                              .budget = 19,
                              .kv_dtype = kernels::operand_dtype(profile),
                              .profile = profile};
      const Outcomes alone = run_alone(loaded, settings, requests);
      for (const auto& [flushes, rounds_down] : kHostileModes) {
        std::optional<HostileMode> hostile(std::in_place, flushes, rounds_down);
        const Loaded again = load_checkpoint(name);
        const Outcomes found = run_together(again, settings, requests);
        hostile.reset();
        expect_equal(alone, found, fmt::format("flushes {}, rounds down {}", flushes, rounds_down));
        EXPECT_EQ(again.model.digest, loaded.model.digest);
      }
    }
  }
}

TEST(EngineExact, EveryFamilyAloneAndTogether) {
  DigestStream all;
  for (const char* name :
       {"gpt_oss", "gpt_oss_plain", "llama_tied", "llama_fp16", "llama_bias", "llama_rope_llama3",
        "llama_rope_yarn", "llama_rope_longrope", "mistral", "mixtral_grouped", "mixtral_window",
        "olmoe_clip", "qwen2", "qwen2_moe_window", "qwen2_window", "qwen3", "qwen3_moe_grouped",
        "qwen3_moe_step", "smollm3"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(10), loaded);
    const Outcomes alone = run_alone(loaded, {.isa = "scalar"}, requests);
    const Settings settings{.threads = 2, .budget = 19, .kv_blocks = 24};
    expect_equal(alone, run_together(loaded, settings, requests), describe(settings));
    for (const auto& [id, outcome] : alone) all.update(digest_of_outcome(outcome));
  }
  EXPECT_TRUE(report_digest("engine families", all.digest()));
}

}  // namespace
}  // namespace rlgen::engine
