#include "generation/rollout_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "generation/line_reader.h"

namespace rlgen::generation {
namespace {

int open_file(const std::string& path, ExistingFile existing) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (existing == ExistingFile::kRefuse ? O_EXCL : 0);
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// False where somebody put another file in the place of the one that was opened.
bool is_still_there(int fd, const std::string& path) {
  struct stat opened {};
  struct stat there {};
  if (::fstat(fd, &opened) != 0 || ::stat(path.c_str(), &there) != 0) return false;
  return opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

Status exists_error(const std::string& path) {
  return absl::AlreadyExistsError(
      fmt::format("output file {} exists; --overwrite replaces it", path));
}

}  // namespace

Status check_new(const std::string& output) {
  return ::access(output.c_str(), F_OK) == 0 ? exists_error(output) : absl::OkStatus();
}

Status check_not_input(std::string_view option, const std::string& input,
                       const std::string& output) {
  if (!same_file(input, output)) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format(
      "--output {} is the file of {}, which would be lost; name another file", output, option));
}

StatusOr<std::unique_ptr<RolloutFile>> RolloutFile::open(const std::string& path,
                                                         ExistingFile existing) {
  const int fd = open_file(path, existing);
  if (fd < 0 && errno == EEXIST) return exists_error(path);
  if (fd < 0) return file_error("open", path, errno);
  std::unique_ptr<RolloutFile> file(new RolloutFile(path, fd));
  RLGEN_RETURN_IF_ERROR(file->start(existing));
  return file;
}

Status RolloutFile::start(ExistingFile existing) {
  struct stat info {};
  if (existing == ExistingFile::kResume && ::fstat(fd_, &info) == 0 && S_ISFIFO(info.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("cannot resume: output file {} is a pipe, which keeps no lines", path_));
  }
  const bool taken = ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (taken || !is_still_there(fd_, path_)) {
    return absl::FailedPreconditionError(
        fmt::format("output file {} is being written by another process", path_));
  }
  if (existing == ExistingFile::kOverwrite && ::ftruncate(fd_, 0) != 0 && errno != EINVAL) {
    return file_error("empty", path_, errno);
  }
  if (existing != ExistingFile::kResume) return absl::OkStatus();
  return cut_torn_line();
}

Status RolloutFile::cut_torn_line() {
  RLGEN_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path_));
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, reader.next());
    if (!line) break;
    if (line->terminated) {
      size_ = line->end;
    } else {
      torn_bytes_ = line->end - size_;
    }
  }
  if (torn_bytes_ > 0 && ::ftruncate(fd_, size_) != 0) {
    return file_error("cut the torn last line of", path_, errno);
  }
  if (::lseek(fd_, size_, SEEK_SET) < 0) return file_error("seek in", path_, errno);
  return absl::OkStatus();
}

StatusOr<int64_t> RolloutFile::copy_without(const std::vector<int64_t>& numbers, int fd,
                                            const std::string& copy) const {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  RLGEN_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path_));
  int64_t size = 0;
  std::string piece;
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, reader.next());
    if (!line || piece.size() >= kPieceBytes) {
      RLGEN_RETURN_IF_ERROR(write_all(fd, copy, piece));
      size += static_cast<int64_t>(piece.size());
      piece.clear();
    }
    if (!line) break;
    if (std::binary_search(numbers.begin(), numbers.end(), line->number)) continue;
    piece += line->text;
    piece += '\n';
  }
  if (::fsync(fd) != 0) return file_error("flush", copy, errno);
  return size;
}

Status RolloutFile::drop_lines(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return absl::OkStatus();
  std::error_code error;
  const auto real = std::filesystem::canonical(path_, error);
  if (error) return file_error("find", path_, error.value());
  const std::string copy = fmt::format("{}.{}.tmp", real.string(), ::getpid());
  const int fd = ::open(copy.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return file_error("create", copy, errno);
  struct stat old {};
  if (::fstat(fd_, &old) == 0) static_cast<void>(::fchmod(fd, old.st_mode & 07777));
  // Locked before it has the name, so that there is no moment without a lock.
  static_cast<void>(::flock(fd, LOCK_EX | LOCK_NB));
  StatusOr<int64_t> size = copy_without(numbers, fd, copy);
  if (size.ok() && ::rename(copy.c_str(), real.c_str()) != 0) {
    size = file_error("replace", path_, errno);
  }
  if (!size.ok()) {
    ::unlink(copy.c_str());
    ::close(fd);
    return size.status();
  }
  ::close(fd_);
  fd_ = fd;
  size_ = *size;
  return absl::OkStatus();
}

RolloutFile::~RolloutFile() { ::close(fd_); }

Status RolloutFile::append(std::string_view line) {
  if (broken_) {
    return absl::FailedPreconditionError(
        fmt::format("output file {} failed before; no more lines are taken", path_));
  }
  std::string bytes(line);
  bytes += '\n';
  const Status status = write_all(fd_, path_, bytes);
  if (status.ok()) {
    size_ += static_cast<int64_t>(bytes.size());
    return status;
  }
  broken_ = true;
  // Best effort: --resume cuts what stays. A device has no length to cut.
  if (::ftruncate(fd_, size_) != 0) return annotate(status, "the last line may be torn");
  return status;
}

}  // namespace rlgen::generation
