#include "generation/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <thread>
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

// A named pipe and the end that writes to it, which is not open at first.
class NamedPipe {
 public:
  NamedPipe() : path_(testing::TempDir() + "/pipe_" + std::to_string(::getpid())) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  }
  ~NamedPipe() {
    close();
    std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }
  void write(std::string_view bytes) {
    if (fd_ < 0) fd_ = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

constexpr InputWait kNoWait{.stop_fd = -1, .patience = std::chrono::milliseconds(0)};

TEST(LineReader, APipeThatHasNothingYetHasNotEnded) {
  NamedPipe pipe;
  auto reader = LineReader::open(pipe.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto nothing = [&] {
    const auto line = reader->next(kNoWait);
    return line.ok() && !line->has_value();
  };
  EXPECT_TRUE(nothing() && !reader->ended()) << "nobody writes";
  pipe.write("ab");
  EXPECT_TRUE(nothing() && !reader->ended()) << "half a line";
  pipe.write("c\nd");
  EXPECT_EQ((*reader->next(kNoWait))->text, "abc");
  EXPECT_TRUE(nothing() && !reader->ended());
  pipe.close();
  const auto last = *reader->next(kNoWait);
  EXPECT_EQ(last->text, "d");
  EXPECT_EQ(last->number, 1);
  EXPECT_EQ(last->end, 5);
  EXPECT_FALSE(last->terminated);
  EXPECT_TRUE(nothing() && reader->ended());
}

TEST(LineReader, WaitsForAPipeAsLongAsItMay) {
  NamedPipe pipe;
  auto reader = LineReader::open(pipe.path());
  EXPECT_EQ(*reader->next({.stop_fd = -1, .patience = std::chrono::milliseconds(20)}),
            std::nullopt);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pipe.write("late\n");
  });
  EXPECT_EQ((*reader->next())->text, "late");
  writer.join();
  pipe.close();
  EXPECT_EQ(*reader->next(), std::nullopt);
  EXPECT_TRUE(reader->ended());
}

TEST(LineReader, AnotherDescriptorEndsTheWait) {
  NamedPipe pipe;
  auto reader = LineReader::open(pipe.path());
  int stop[2];
  ASSERT_EQ(::pipe2(stop, O_CLOEXEC), 0);
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(::write(stop[1], "x", 1), 1);
  });
  EXPECT_EQ(*reader->next({.stop_fd = stop[0], .patience = {}}), std::nullopt);
  EXPECT_FALSE(reader->ended());
  stopper.join();
  pipe.write("whole\n");
  EXPECT_EQ((*reader->next())->text, "whole") << "nothing is lost";
  ::close(stop[0]);
  ::close(stop[1]);
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
