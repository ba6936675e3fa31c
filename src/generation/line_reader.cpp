#include "generation/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace rlgen::generation {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

}  // namespace

LineReader::LineReader(std::string path, int fd)
    : path_(std::move(path)), fd_(fd), buffer_(std::make_unique<char[]>(kBufferBytes)) {}

LineReader::LineReader(LineReader&& other) noexcept { *this = std::move(other); }

LineReader& LineReader::operator=(LineReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(next_number_, other.next_number_);
  std::swap(offset_, other.offset_);
  return *this;
}

LineReader::~LineReader() {
  if (fd_ >= 0) ::close(fd_);
}

StatusOr<LineReader> LineReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error("open", path, errno);
  LineReader reader(path, fd);
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder; it must be a file", path));
  }
  return reader;
}

StatusOr<bool> LineReader::fill() {
  ssize_t count = 0;
  do {
    count = ::read(fd_, buffer_.get(), kBufferBytes);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return file_error("read", path_, errno);
  begin_ = 0;
  end_ = static_cast<size_t>(count);
  return count > 0;
}

StatusOr<std::optional<LineReader::Line>> LineReader::next() {
  Line line;
  line.terminated = false;
  bool any = false;
  while (!line.terminated) {
    if (begin_ == end_) {
      RLGEN_ASSIGN_OR_RETURN(const bool more, fill());
      if (!more) break;
    }
    any = true;
    const char* const from = buffer_.get() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    const size_t length = found == nullptr
                              ? end_ - begin_
                              : static_cast<size_t>(static_cast<const char*>(found) - from);
    if (line.text.size() + length > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{} line {} is longer than {} bytes; the file must be JSONL", path_,
                      next_number_ + 1, kMaxLineBytes));
    }
    line.text.append(from, length);
    line.terminated = found != nullptr;
    const size_t used = length + (line.terminated ? 1 : 0);
    begin_ += used;
    offset_ += static_cast<int64_t>(used);
  }
  if (!any) return std::optional<Line>();
  if (line.text.ends_with('\r')) line.text.pop_back();
  line.number = next_number_++;
  line.end = offset_;
  return std::optional<Line>(std::move(line));
}

StatusOr<std::optional<int64_t>> count_lines(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    return std::optional<int64_t>();
  }
  RLGEN_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path));
  for (int64_t count = 0;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, reader.next());
    if (!line) return std::optional<int64_t>(count);
    if (!is_blank(line->text)) ++count;
  }
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t") == std::string::npos;
}

}  // namespace rlgen::generation
