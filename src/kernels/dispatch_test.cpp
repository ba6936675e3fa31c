#include <algorithm>
#include <cstdio>

#include "kernels/kernel_test.h"

namespace rlgen::kernels {
namespace {

constexpr Isa kAll[] = {Isa::kScalar,     Isa::kAvx2, Isa::kAvx512,
                        Isa::kAvx512Bf16, Isa::kAmx,  Isa::kNeon};

TEST(Dispatch, SaysWhatTheseTestsLeaveOut) {
  const std::vector<Isa> here = available_isas();
  for (const Isa isa : kAll) {
    const bool runs = std::find(here.begin(), here.end(), isa) != here.end();
    std::printf("isa %-7s %s\n", std::string(isa_name(isa)).c_str(), runs ? "tested" : "SKIPPED");
  }
  EXPECT_EQ(here.front(), Isa::kScalar);
}

TEST(Dispatch, EachTableIsItsOwnAndFull) {
  for (const Isa isa : available_isas()) {
    const KernelTable* table = kernel_table(isa);
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->isa, isa);
    // Behind the first member there are function pointers, and numbers above 0.
    using Function = void (*)();
    constexpr size_t kFunctions = sizeof(KernelTable) / sizeof(Function) - 1;
    Function functions[kFunctions];
    std::memcpy(functions, reinterpret_cast<const std::byte*>(table) + sizeof(Function),
                sizeof functions);
    for (size_t i = 0; i < kFunctions; ++i) EXPECT_NE(functions[i], nullptr) << i;
  }
}

TEST(Dispatch, AutoIsTheBest) {
  const auto best = select_kernels("auto");
  ASSERT_TRUE(best.ok());
  EXPECT_EQ((*best)->isa, available_isas().back());
}

TEST(Dispatch, EveryNameFindsItsTable) {
  for (const Isa isa : available_isas()) {
    const auto table = select_kernels(isa_name(isa));
    ASSERT_TRUE(table.ok());
    EXPECT_EQ((*table)->isa, isa);
  }
}

TEST(Dispatch, BogusNamesFail) {
  for (const std::string name : {"", "AVX2", "avx", "sse4", "best", "scalar "}) {
    const auto table = select_kernels(name);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message = message_of(table.status());
    EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
    EXPECT_NE(message.find("scalar"), std::string::npos) << message;
  }
}

TEST(Dispatch, WhatTheMachineLacksIsRefused) {
  const CpuFeatures none;
  EXPECT_EQ(runnable_isas(none), std::vector<Isa>{Isa::kScalar});
  const auto best = select_kernels("auto", none);
  ASSERT_TRUE(best.ok());
  EXPECT_EQ((*best)->isa, Isa::kScalar);
  for (const std::string name : {"avx2", "avx512", "amx", "neon"}) {
    const auto table = select_kernels(name, none);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(message_of(table.status()).find("'" + name + "'"), std::string::npos);
  }
}

// What only the other family of processors has is not in the binary, whatever the machine says.
TEST(Dispatch, WhatTheBinaryLacksIsRefused) {
  const CpuFeatures everything{
      .avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true, .neon = true};
  EXPECT_LT(runnable_isas(everything).size(), std::size(kAll));
#if defined(__x86_64__)
  const auto table = select_kernels("neon", everything);
#else
  const auto table = select_kernels("avx512", everything);
#endif
  EXPECT_EQ(table.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(message_of(table.status()).find("not in this build"), std::string::npos);
}

TEST(Dispatch, Avx2MachinesStopThere) {
  const std::vector<Isa> isas = runnable_isas({.avx2_fma = true});
  EXPECT_EQ(std::count(isas.begin(), isas.end(), Isa::kAvx512), 0);
}

}  // namespace
}  // namespace rlgen::kernels
