#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"

namespace rlgen::generation {

// Longest line that is read: a file without line ends must not eat the memory.
inline constexpr size_t kMaxLineBytes = size_t{1} << 26;

// Reads a text file line by line with little memory. One thread at a time. Move only.
class LineReader {
 public:
  // Errors: those of file_error (base/file.h); kInvalidArgument for a folder.
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

  // The next line; nothing at the end. Errors: those of file_error (read); kInvalidArgument for a
  // line above kMaxLineBytes.
  StatusOr<std::optional<Line>> next();

 private:
  LineReader(std::string path, int fd);
  StatusOr<bool> fill();

  std::string path_;
  int fd_ = -1;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t next_number_ = 0;
  int64_t offset_ = 0;
};

// How many lines of the file are not blank; nothing where it cannot be read twice, like a pipe.
// Errors as above.
StatusOr<std::optional<int64_t>> count_lines(const std::string& path);

// True for a line of spaces and tabs only, which readers pass over.
bool is_blank(const std::string& line);

}  // namespace rlgen::generation
