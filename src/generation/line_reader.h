#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"

namespace rlgen::generation {

// Longest line that is read: a file without line ends must not eat the memory.
inline constexpr size_t kMaxLineBytes = size_t{1} << 26;

// How long a reader waits for a pipe or a terminal that has nothing to read yet.
struct InputWait {
  int stop_fd = -1;  // ends the wait as soon as it can be read, with nothing taken; -1: none
  std::optional<std::chrono::milliseconds> patience;  // unset: without end
};

// Reads a text file line by line with little memory. One thread at a time. Move only.
class LineReader {
 public:
  // A named pipe is not waited for here but by next(). Errors: those of file_error (base/file.h);
  // kInvalidArgument for a folder.
  static StatusOr<LineReader> open(const std::string& path);

  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&& other) noexcept;
  ~LineReader();

  struct Line {
    std::string text;        // without "\n" or "\r\n"
    int64_t number = 0;      // from 0
    int64_t end = 0;         // offset of the byte after the line and its line end
    bool terminated = true;  // false: the file ends without a line end
  };

  // The next line; nothing at the end, or where the wait is over before there is a whole line: then
  // ended() is false and another call goes on with what came of it. Errors: those of file_error
  // (read); kInvalidArgument for a line above kMaxLineBytes.
  StatusOr<std::optional<Line>> next(const InputWait& wait = {});

  // True once next() has met the end of the file.
  bool ended() const { return ended_; }

 private:
  LineReader(std::string path, int fd);
  StatusOr<bool> wait_for_input(const InputWait& wait) const;
  StatusOr<bool> fill(const InputWait& wait);
  Line take_line(bool terminated);

  std::string path_;
  int fd_ = -1;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string begun_;  // of the line whose end was not met yet
  bool ended_ = false;
  int64_t next_number_ = 0;
  int64_t offset_ = 0;
};

// How many lines of the file are not blank; nothing where it cannot be read twice, like a pipe.
// Errors as above.
StatusOr<std::optional<int64_t>> count_lines(const std::string& path);

// True for a line of spaces and tabs only, which readers pass over.
bool is_blank(const std::string& line);

}  // namespace rlgen::generation
