#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

namespace rlgen {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "rlgen_file_XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t files_in_folder() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  }

  std::string folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string bytes("a\0b\n\xff", 5);
  ASSERT_TRUE(write_file_atomically(path("x"), bytes).ok());
  EXPECT_EQ(*read_file(path("x")), bytes);
  ASSERT_TRUE(write_file_atomically(path("x"), "").ok());
  EXPECT_EQ(*read_file(path("x")), "");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(FileTest, MissingFileIsNamed) {
  const auto result = read_file(path("none"));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(result.status()), HasSubstr(path("none")));
  EXPECT_THAT(message_of(result.status()), HasSubstr("No such file"));
}

TEST_F(FileTest, WhatCannotBeReadOrWrittenShowsBeforehand) {
  ASSERT_TRUE(write_file_atomically(path("x"), "a").ok());
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string name : {"x", "pipe"}) {
    EXPECT_TRUE(check_readable(path(name)).ok());
    EXPECT_TRUE(check_writable(path(name)).ok());
  }
  EXPECT_TRUE(check_writable(path("new")).ok());
  EXPECT_TRUE(check_writable("/dev/null").ok());
  for (const std::string& bad : {path("none"), path("none/new"), std::string()}) {
    const Status status = check_readable(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(message_of(status), HasSubstr("cannot open " + bad));
  }
  EXPECT_THAT(message_of(check_writable(path("none/new"))),
              HasSubstr("cannot create " + path("none/new") + ": No such file"));
  EXPECT_FALSE(check_writable(path("x/new")).ok());
  for (const Status& status : {check_readable(folder_), check_writable(folder_)}) {
    EXPECT_THAT(message_of(status), HasSubstr(folder_ + " is a folder"));
  }
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& odd : {path("pipe"), folder_}) {
    const auto result = read_file(odd);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message_of(result.status()), HasSubstr(odd + ": it is no regular file"));
  }
}

TEST_F(FileTest, FailedWriteLeavesNothingBehind) {
  std::filesystem::create_directory(path("folder"));
  std::ofstream(path("folder/inside")) << "x";
  EXPECT_FALSE(write_file_atomically(path("folder"), "y").ok());
  EXPECT_EQ(files_in_folder(), 1u);
  const Status status = write_file_atomically(path("none/x"), "y");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, LeftoverOfAKilledWriterIsReplaced) {
  std::ofstream(path("x") + "." + std::to_string(::getpid()) + ".tmp") << "torn";
  ASSERT_TRUE(write_file_atomically(path("x"), "whole").ok());
  EXPECT_EQ(*read_file(path("x")), "whole");
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(FileTest, ReadsFilesWithoutASize) {
  const auto result = read_file("/proc/self/status");
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(*result, HasSubstr("Pid:"));
}

TEST_F(FileTest, OneFileUnderTwoNames) {
  ASSERT_TRUE(write_file_atomically(path("x"), "a").ok());
  ASSERT_TRUE(write_file_atomically(path("y"), "a").ok());
  std::filesystem::create_symlink(path("x"), path("link"));
  std::filesystem::create_hard_link(path("x"), path("hard"));
  EXPECT_TRUE(same_file(path("x"), folder_ + "/./x"));
  EXPECT_TRUE(same_file(path("x"), path("link")));
  EXPECT_TRUE(same_file(path("hard"), path("x")));
  EXPECT_FALSE(same_file(path("x"), path("y")));
  EXPECT_FALSE(same_file(path("x"), path("absent")));
  EXPECT_FALSE(same_file("/dev/null", "/dev/null"));
}

TEST_F(FileTest, WritesAllBytesOrNamesTheFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string bytes(1 << 20, 'x');  // more than a pipe takes at once
  std::jthread reader([&] {
    std::string read(4096, ' ');
    for (size_t left = bytes.size(); left > 0;) left -= size_t(::read(ends[0], read.data(), 4096));
  });
  EXPECT_TRUE(write_all(ends[1], "pipe", bytes).ok());
  reader.join();
  EXPECT_TRUE(write_all(ends[0], "the end that reads", "").ok());
  EXPECT_EQ(message_of(write_all(ends[0], "the end that reads", "x")),
            "cannot write the end that reads: Bad file descriptor");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(FileError, FullDiskIsOutOfCapacity) {
  const Status status = file_error("write", "out.jsonl", ENOSPC);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(status), HasSubstr("cannot write out.jsonl: No space left"));
}

TEST_F(FileTest, MapsContentAndMoves) {
  ASSERT_TRUE(write_file_atomically(path("x"), "abc").ok());
  auto mapped = MappedFile::open(path("x"));
  ASSERT_TRUE(mapped.ok());
  MappedFile moved = std::move(*mapped);
  EXPECT_TRUE(mapped->bytes().empty());
  ASSERT_EQ(moved.bytes().size(), 3u);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
  EXPECT_EQ(moved.path(), path("x"));
  std::filesystem::remove(path("x"));
  EXPECT_EQ(moved.bytes()[0], std::byte{'a'});
}

TEST_F(FileTest, MoveAssignmentDropsTheOldMapping) {
  ASSERT_TRUE(write_file_atomically(path("x"), "abc").ok());
  ASSERT_TRUE(write_file_atomically(path("y"), "defg").ok());
  auto x = MappedFile::open(path("x"));
  auto y = MappedFile::open(path("y"));
  ASSERT_TRUE(x.ok() && y.ok());
  *x = std::move(*y);
  EXPECT_EQ(x->bytes().size(), 4u);
  EXPECT_EQ(x->path(), path("y"));
}

TEST_F(FileTest, MapsAnEmptyFile) {
  ASSERT_TRUE(write_file_atomically(path("x"), "").ok());
  const auto mapped = MappedFile::open(path("x"));
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(mapped->bytes().empty());
}

TEST_F(FileTest, RefusesToMapWhatIsNoFile) {
  EXPECT_EQ(MappedFile::open(folder_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open(path("none")).status().code(), absl::StatusCode::kNotFound);
}

// Kilobytes of files that this process has in its memory.
int64_t resident_file_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoll(line.substr(8));
  }
  return -1;
}

TEST_F(FileTest, DroppedPagesLeaveMemoryAndComeBack) {
  const std::string content(size_t{16} << 20, 'x');
  ASSERT_TRUE(write_file_atomically(path("x"), content).ok());
  const auto mapped = MappedFile::open(path("x"));
  ASSERT_TRUE(mapped.ok());
  const auto touch = [&] {
    return std::count(mapped->bytes().begin(), mapped->bytes().end(), std::byte{'x'});
  };
  const int64_t before = resident_file_kilobytes();
  if (before < 0) GTEST_SKIP() << "this system does not say what is in memory";
  EXPECT_EQ(touch(), std::ssize(content));
  EXPECT_GT(resident_file_kilobytes(), before + 15'000);
  drop_pages(mapped->bytes().subspan(100, content.size() - 200));
  EXPECT_LT(resident_file_kilobytes(), before + 1'000);
  EXPECT_EQ(touch(), std::ssize(content));
  drop_pages({});
}

}  // namespace
}  // namespace rlgen
