#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/float_mode.h"
#include "exact/digest_file.h"
#include "exact/exact_requests.h"

namespace rlgen::engine {
namespace {

using namespace rlgen::engine::test;  // NOLINT

// Of this machine: flushing, rounding down, and both.
std::vector<uint64_t> hostile_control_words() {
  const uint64_t before = float_control_word();
#if defined(__x86_64__)
  constexpr uint64_t kFlush = 0x8040;
  constexpr uint64_t kDown = 0x2000;
#else
  constexpr uint64_t kFlush = uint64_t{1} << 24;
  constexpr uint64_t kDown = uint64_t{2} << 22;
#endif
  return {before | kFlush, before | kDown, before | kFlush | kDown};
}

TEST(EngineExact, TheBfloat16ProfileIsExactToo) {
  DigestStream all;
  for (const char* name : {"gpt_oss", "llama_tied", "smollm3", "mistral", "mixtral", "olmoe",
                           "qwen2_moe_window", "qwen3_moe_step"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(12), loaded);
    for (const DType kv_dtype : {DType::kFloat32, DType::kBFloat16}) {
      Settings settings{
          .isa = "scalar", .kv_dtype = kv_dtype, .profile = kernels::Profile::kBFloat16};
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
  EXPECT_TRUE(report_digest("engine bfloat16 profile", all.digest()));
}

// Hosts set rounding and flush modes for their own ends, in the thread that calls and before the
// engine's threads are made.
TEST(EngineExact, TheCallersFloatModesDoNotReachAnyThread) {
  for (const char* name : {"llama_tied", "qwen2_moe_window"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load_checkpoint(name);
    const auto requests = within_vocabulary(mixed_requests(12), loaded);
    for (const auto profile : {kernels::Profile::kFloat32, kernels::Profile::kBFloat16}) {
      const DType kv_dtype =
          profile == kernels::Profile::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
      const Settings settings{.threads = 2, .budget = 19, .kv_dtype = kv_dtype, .profile = profile};
      const Outcomes alone = run_alone(loaded, settings, requests);
      const uint64_t before = float_control_word();
      for (const uint64_t hostile : hostile_control_words()) {
        set_float_control_word(hostile);
        const Outcomes found = run_together(loaded, settings, requests);
        set_float_control_word(before);
        expect_equal(alone, found, "control word " + std::to_string(hostile));
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
