#include "cli/bench/machine.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/bench/process_memory.h"

namespace rlgen::cli {
namespace {

std::string write_text(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(BenchMachine, ReadsWhatTheKernelSays) {
  const MachineFiles files = {
      .cpuinfo = write_text("cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Fast One\n"),
      .meminfo = write_text("meminfo", "MemFree:  5 kB\nMemTotal:       2048 kB\n")};
  const MachineDescription machine = describe_machine(files);
  EXPECT_EQ(machine.cpu, "Fast One");
  EXPECT_EQ(machine.memory_bytes, 2048 * 1024);
  EXPECT_GE(machine.cpus, 1);
  EXPECT_FALSE(machine.compiler.empty());
  EXPECT_EQ(to_json(machine)["cpu"], "Fast One");
}

TEST(BenchMachine, AProcessorWithoutANameHasItsArchitecture) {
  const MachineDescription machine = describe_machine(
      {.cpuinfo = write_text("arm", "processor : 0\nBogoMIPS : 50.00\n"), .meminfo = "missing"});
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_EQ(machine.memory_bytes, 0);
}

TEST(BenchMachine, ReadsTheMemoryOfAProcess) {
  const auto memory =
      read_process_memory(write_text("status", "VmHWM:\t    300 kB\nVmRSS:\t 200 kB\n"));
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->resident, 200 * 1024);
  EXPECT_EQ(memory->peak, 300 * 1024);
  EXPECT_EQ(read_process_memory(write_text("nothing", "Name: x\n")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(BenchMachine, ThisProcessTakesMemory) {
  const auto before = read_process_memory();
  ASSERT_TRUE(before.ok());
  const std::vector<char> block(size_t{64} << 20, 1);
  const auto after = read_process_memory();
  ASSERT_TRUE(after.ok());
  EXPECT_GT(after->resident - before->resident, int64_t{32} << 20);
  EXPECT_GE(after->peak, after->resident - (int64_t{1} << 20));
  EXPECT_EQ(block[block.size() - 1], 1);
}

}  // namespace
}  // namespace rlgen::cli
