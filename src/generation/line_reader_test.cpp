#include "generation/line_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

namespace rlgen::generation {
namespace {

std::vector<LineReader::Line> lines_of(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/lines_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  auto reader = LineReader::open(path);
  std::vector<LineReader::Line> lines;
  for (;;) {
    auto line = reader->next();
    EXPECT_TRUE(line.ok()) << line.status();
    if (!line->has_value()) break;
    lines.push_back(**std::move(line));
  }
  std::remove(path.c_str());
  return lines;
}

TEST(LineReader, SplitsAndCounts) {
  const auto lines = lines_of("a\r\n\nbc\nd");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, "a");
  EXPECT_EQ(lines[0].end, 3);
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[2].text, "bc");
  EXPECT_EQ(lines[2].number, 2);
  EXPECT_TRUE(lines[2].terminated);
  EXPECT_EQ(lines[3].text, "d");
  EXPECT_FALSE(lines[3].terminated);
  EXPECT_TRUE(lines_of("").empty());
}

TEST(LineReader, LinesLongerThanTheBuffer) {
  const std::string big(1000000, 'x');
  const auto lines = lines_of(big + "\n" + big + "y\nz\n");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, big);
  EXPECT_EQ(lines[1].text, big + "y");
  EXPECT_EQ(lines[2].text, "z");
}

TEST(LineReader, AFileWithoutLineEndsEndsInAnError) {
  auto reader = LineReader::open("/dev/zero");
  const auto line = reader->next();
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(line.status()).find("/dev/zero line 1"), std::string::npos);
}

TEST(LineReader, CountsOnlyWhatCanBeReadTwice) {
  const std::string path = testing::TempDir() + "/counted_" + std::to_string(::getpid());
  std::ofstream(path) << "a\n \nb";
  EXPECT_EQ(*count_lines(path), 2);
  std::remove(path.c_str());
  EXPECT_EQ(*count_lines("/dev/null"), std::nullopt);
  EXPECT_FALSE(count_lines(path).ok());
}

TEST(LineReader, NoSuchFileAndFolders) {
  EXPECT_EQ(LineReader::open("/no/such").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LineReader::open("/").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LineReader, BlankLines) {
  EXPECT_TRUE(is_blank(" \t"));
  EXPECT_FALSE(is_blank(" x"));
}

}  // namespace
}  // namespace rlgen::generation
