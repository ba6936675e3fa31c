#include "scenarios/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace rlgen::engine {
namespace {

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/scenarios")) {
    const auto& path = entry.path();
    if (path.extension() == ".txt" && path.stem() != "CMakeLists") files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

TEST(Scenarios, EveryFileTellsWhatHappens) {
  const auto files = scenario_files();
  EXPECT_GE(files.size(), 8u);
  for (const auto& file : files) {
    std::ifstream in(file);
    Scenario scenario;
    int number = 0;
    int expectations = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      expectations += line.starts_with("expect") ? 1 : 0;
      const std::string fault = scenario.run_line(line);
      EXPECT_EQ(fault, "") << file.string() << ":" << number << ": " << line;
    }
    EXPECT_GT(expectations, 0) << file;
  }
}

TEST(Scenarios, AWrongLineIsAFault) {
  Scenario scenario;
  EXPECT_EQ(scenario.run_line("jump"), "unknown word jump");
  EXPECT_EQ(scenario.run_line("add 1 a20 4"), "");
  EXPECT_EQ(scenario.run_line("expect waiting 2"), "waiting is [1], expected [2]");
  EXPECT_EQ(scenario.run_line("pool 3"), "an option comes first and has a number");
  EXPECT_EQ(scenario.run_line("cancel 9"), "no such sequence");
}

}  // namespace
}  // namespace rlgen::engine
