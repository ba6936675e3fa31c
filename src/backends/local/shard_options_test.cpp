#include "backends/local/shard_options.h"

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "contract/spec_error.h"

namespace rlgen::backends {
namespace {

bool mentions(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string::npos;
}

models::DecoderSpec small_model() {
  models::DecoderSpec model;
  model.layers = 2;
  model.kv_heads = 2;
  model.head_dim = 8;
  return model;
}

TEST(ShardOptions, ThreadsAreThoseOfTheMachine) {
  const int32_t cpus = machine_cpus();
  EXPECT_EQ(choose_machine({})->num_threads, usable_cpus());
  EXPECT_EQ(choose_machine({.num_threads = cpus})->num_threads, cpus);
  for (const int32_t threads : {-1, cpus + 1, 5000}) {
    const Status status = choose_machine({.num_threads = threads}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(mentions(status, "num_threads is " + std::to_string(threads) + "; use 1 to " +
                                     std::to_string(cpus) + ","))
        << status;
    EXPECT_EQ(spec_field_of(status), "num_threads");
  }
}

TEST(ShardOptions, IsaIsOneOfThisMachine) {
  EXPECT_EQ(choose_machine({.isa = "scalar"})->kernels->isa, kernels::Isa::kScalar);
  const Status isa = choose_machine({.isa = "avx9"}).status();
  EXPECT_TRUE(mentions(isa, "isa") && mentions(isa, "avx9") && mentions(isa, "scalar")) << isa;
  EXPECT_EQ(spec_field_of(isa), "isa");
}

TEST(ShardOptions, TypeOfTheWeights) {
  EXPECT_EQ(*choose_dtype({}), std::nullopt);
  EXPECT_EQ(*choose_dtype({.dtype = "float16"}), DType::kFloat16);
  for (const std::string name : {"int8", "", "fp32"}) {
    const Status status = choose_dtype({.dtype = name}).status();
    EXPECT_TRUE(mentions(status, "dtype is '" + name + "'")) << status;
    EXPECT_EQ(spec_field_of(status), "dtype");
  }
}

TEST(ShardOptions, ProfileDecidesTheTypesOfMatricesAndCache) {
  for (const kernels::Profile profile : kernels::kProfiles) {
    ShardSpec spec{.activation_dtype = std::string(kernels::profile_name(profile))};
    EXPECT_EQ(*choose_profile(spec), profile);
    const bool rounds = profile != kernels::Profile::kFloat32;
    EXPECT_EQ(choose_kv_layout(spec, small_model())->dtype,
              rounds ? DType::kBFloat16 : DType::kFloat32);
    spec.dtype = "float16";
    const auto narrow = choose_profile(spec);
    EXPECT_EQ(narrow.ok(), !rounds) << narrow.status();
    if (narrow.ok()) continue;
    EXPECT_TRUE(mentions(narrow.status(), "dtype is 'float16', but with activation_dtype '" +
                                              spec.activation_dtype + "'"))
        << narrow.status();
    EXPECT_EQ(spec_field_of(narrow.status()), "dtype");
  }
}

TEST(ShardOptions, UnknownProfilesAreRefusedWithThoseThereAre) {
  for (const std::string name : {"float16", "", "bfloat16_AMX", "amx"}) {
    const Status status = choose_profile({.activation_dtype = name}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(mentions(
        status, "activation_dtype is '" + name + "'; use float32, bfloat16 or bfloat16_amx"))
        << status;
    EXPECT_EQ(spec_field_of(status), "activation_dtype");
  }
}

TEST(ShardOptions, FB237_RoutesOfAModelWithoutExpertsAreRefused) {
  EXPECT_EQ(*choose_route_capture({}, small_model()), engine::RouteCapture::kOff);
  const Status dense =
      choose_route_capture({.enable_return_routed_experts = true}, small_model()).status();
  EXPECT_TRUE(mentions(dense, "enable_return_routed_experts is set")) << dense;
  EXPECT_TRUE(mentions(dense, "no experts")) << dense;
  EXPECT_EQ(spec_field_of(dense), "enable_return_routed_experts");
}

TEST(ShardOptions, LayersOfRoutesThatNobodyRecordsAreRefused) {
  const Status idle =
      choose_route_capture({.routed_experts_layers = "all"}, small_model()).status();
  EXPECT_TRUE(mentions(idle, "routed_experts_layers is 'all', but no routes")) << idle;
  EXPECT_EQ(spec_field_of(idle), "routed_experts_layers");
  const Status odd =
      choose_route_capture({.routed_experts_layers = "none"}, small_model()).status();
  EXPECT_TRUE(mentions(odd, "'none'; use moe or all")) << odd;
  EXPECT_EQ(spec_field_of(odd), "routed_experts_layers");
}

TEST(ShardOptions, KvLayoutFollowsModelAndOptions) {
  const auto layout =
      choose_kv_layout({.kv_cache_dtype = "bfloat16", .block_size = 32}, small_model());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->dtype, DType::kBFloat16);
  EXPECT_EQ(layout->block_stride(), size_t(2 * 2 * 32 * (8 + 8) * 2));
  EXPECT_EQ(choose_kv_layout({}, small_model())->dtype, DType::kFloat32);
  EXPECT_TRUE(mentions(choose_kv_layout({.kv_cache_dtype = "fp8"}, small_model()).status(),
                       "kv_cache_dtype is 'fp8'"));
  EXPECT_TRUE(
      mentions(choose_kv_layout({.block_size = 24}, small_model()).status(), "block_size is 24"));
}

// Blocks have no byte more where no routes are recorded, and one for each id where they are.
TEST(ShardOptions, RoutesCostNothingWhenOff) {
  models::DecoderSpec model = small_model();
  model.layers = 3;
  model.layer.assign(3, {.sparse = true});
  model.layer[1].sparse = false;
  model.experts = {.count = 8, .top_k = 4};
  const auto layout_with = [&](const ShardSpec& spec) {
    const auto capture = choose_route_capture(spec, model);
    EXPECT_TRUE(capture.ok()) << capture.status();
    return *choose_kv_layout(spec, model,
                             engine::route_facts(*capture, engine::route_layers(model)));
  };
  const kernels::KvLayout off = layout_with({.block_size = 32});
  EXPECT_EQ(off.side_bytes, 0u);
  const kernels::KvLayout on =
      layout_with({.block_size = 32, .enable_return_routed_experts = true});
  EXPECT_EQ(on.side_bytes, 32u * 2 * 4);
  EXPECT_EQ(on.block_stride(), off.block_stride() + 256);
  const kernels::KvLayout all = layout_with(
      {.block_size = 32, .enable_return_routed_experts = true, .routed_experts_layers = "all"});
  EXPECT_EQ(all.block_stride(), off.block_stride() + 384);
  model.experts.count = 129;
  EXPECT_EQ(layout_with({.block_size = 32, .enable_return_routed_experts = true}).side_bytes,
            2u * 256);
}

TEST(ShardOptions, KvBytesAreBoundedByNeedAndByFreeMemory) {
  const kernels::KvLayout layout = *choose_kv_layout({}, small_model());
  const auto block = int64_t(layout.block_stride());
  const auto choose = [&](const ShardSpec& spec, int64_t free) {
    return choose_kv_bytes(spec, layout, 100, {.total = int64_t{1} << 60, .free = free});
  };
  const ShardSpec four{.max_num_seqs = 4};
  EXPECT_EQ(*choose(four, int64_t{1} << 40), 4 * 7 * block);
  EXPECT_EQ(*choose(four, 20 * block + 5), 10 * block);
  EXPECT_EQ(*choose({.max_num_seqs = 1 << 20}, int64_t{1} << 59), 7 * block << 20);
  const Status poor = choose(four, 13 * block).status();
  EXPECT_EQ(poor.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(mentions(poor, std::to_string(7 * block))) << poor;
  EXPECT_TRUE(mentions(poor, "a fraction from 0.539 to 1, or max_model_len from 2 to 96, or"))
      << poor;
  EXPECT_EQ(spec_field_of(poor), "kv_cache_memory_fraction");
  const Status poorer = choose(four, block).status();
  EXPECT_TRUE(mentions(poorer, "; set kv_cache_memory_bytes")) << poorer;
}

TEST(ShardOptions, TheFractionOfFreeMemory) {
  const kernels::KvLayout layout = *choose_kv_layout({}, small_model());
  const auto block = int64_t(layout.block_stride());
  const auto choose = [&](double fraction, int64_t bytes) {
    const ShardSpec spec{.kv_cache_memory_bytes = bytes, .kv_cache_memory_fraction = fraction};
    return choose_kv_bytes(spec, layout, 100, {.total = 200 * block, .free = 100 * block});
  };
  EXPECT_EQ(*choose(0.25, 0), 25 * block);
  EXPECT_EQ(*choose(1.0, 0), 100 * block);
  EXPECT_EQ(*choose(0.5, 120 * block), 120 * block);
  for (const double wrong : {0.0, -1.0, 1.01, std::nan("")}) {
    const Status status = choose(wrong, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(mentions(status, "it must be a number from 0.01 to 1")) << status;
    EXPECT_EQ(spec_field_of(status), "kv_cache_memory_fraction");
  }
  EXPECT_TRUE(mentions(choose(0.25, 20 * block).status(), "set one of them"));
}

// Bytes that somebody names are taken as they are, or refused with both ends of what may be.
TEST(ShardOptions, KvBytesThatAreNamed) {
  const kernels::KvLayout layout = *choose_kv_layout({}, small_model());
  const auto block = int64_t(layout.block_stride());
  const MachineMemory memory{.total = 50 * block, .free = 0};
  for (const int64_t bytes : {7 * block, 9 * block + 1, 50 * block}) {
    EXPECT_EQ(*choose_kv_bytes({.kv_cache_memory_bytes = bytes}, layout, 100, memory), bytes);
  }
  for (const int64_t bytes : {int64_t{-2}, int64_t{999}, 7 * block - 1, 50 * block + 1,
                              int64_t{1'000'000'000'000'000}, int64_t{1} << 62}) {
    const Status status =
        choose_kv_bytes({.kv_cache_memory_bytes = bytes}, layout, 100, memory).status();
    EXPECT_TRUE(mentions(status, "kv_cache_memory_bytes is " + std::to_string(bytes))) << status;
    EXPECT_TRUE(mentions(status, "from " + std::to_string(7 * block))) << status;
    EXPECT_TRUE(mentions(status, "to " + std::to_string(50 * block))) << status;
    EXPECT_EQ(spec_field_of(status), "kv_cache_memory_bytes");
  }
}

}  // namespace
}  // namespace rlgen::backends
