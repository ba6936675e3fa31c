#include "generation/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace rlgen::generation {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

// As poll() takes it.
int milliseconds_of(const InputWait& wait) {
  if (!wait.patience) return -1;
  return static_cast<int>(std::clamp<int64_t>(wait.patience->count(), 0, INT_MAX));
}

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
  std::swap(begun_, other.begun_);
  std::swap(ended_, other.ended_);
  std::swap(next_number_, other.next_number_);
  std::swap(offset_, other.offset_);
  return *this;
}

LineReader::~LineReader() {
  if (fd_ >= 0) ::close(fd_);
}

StatusOr<LineReader> LineReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return file_error("open", path, errno);
  LineReader reader(path, fd);
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder; it must be a file", path));
  }
  return reader;
}

// False where the wait is over. Reading a named pipe before anybody wrote to it would give its end,
// so that nothing is read without this.
StatusOr<bool> LineReader::wait_for_input(const InputWait& wait) const {
  pollfd watched[] = {{fd_, POLLIN, 0}, {wait.stop_fd, POLLIN, 0}};
  while (::poll(watched, 2, milliseconds_of(wait)) < 0) {
    if (errno != EINTR) return file_error("wait for", path_, errno);
  }
  return watched[0].revents != 0 && watched[1].revents == 0;
}

// False where nothing came: the file has ended, or the wait is over.
StatusOr<bool> LineReader::fill(const InputWait& wait) {
  ssize_t count = -1;
  while (count < 0) {
    RLGEN_ASSIGN_OR_RETURN(const bool ready, wait_for_input(wait));
    if (!ready) return false;
    count = ::read(fd_, buffer_.get(), kBufferBytes);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return file_error("read", path_, errno);
  }
  begin_ = 0;
  end_ = static_cast<size_t>(count);
  ended_ = count == 0;
  return !ended_;
}

LineReader::Line LineReader::take_line(bool terminated) {
  Line line{.text = std::exchange(begun_, {}),
            .number = next_number_++,
            .end = offset_,
            .terminated = terminated};
  if (line.text.ends_with('\r')) line.text.pop_back();
  return line;
}

StatusOr<std::optional<LineReader::Line>> LineReader::next(const InputWait& wait) {
  for (;;) {
    if (begin_ == end_) {
      RLGEN_ASSIGN_OR_RETURN(const bool more, fill(wait));
      if (!more) break;
    }
    const char* const from = buffer_.get() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    const size_t length = found == nullptr
                              ? end_ - begin_
                              : static_cast<size_t>(static_cast<const char*>(found) - from);
    if (begun_.size() + length > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{} line {} is longer than {} bytes; the file must be JSONL", path_,
                      next_number_ + 1, kMaxLineBytes));
    }
    begun_.append(from, length);
    const size_t used = length + (found != nullptr ? 1 : 0);
    begin_ += used;
    offset_ += static_cast<int64_t>(used);
    if (found != nullptr) return std::optional<Line>(take_line(true));
  }
  if (!ended_ || begun_.empty()) return std::optional<Line>();
  return std::optional<Line>(take_line(false));
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
