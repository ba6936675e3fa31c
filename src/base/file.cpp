#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/descriptor.h"

namespace rlgen {
namespace {

StatusOr<std::string> read_all(int fd, const std::string& path, std::size_t expected) {
  std::string content(expected + 1, '\0');
  std::size_t filled = 0;
  while (true) {
    if (filled == content.size()) content.resize(content.size() * 2);
    const ssize_t got = ::read(fd, content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status folder_error(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("{} is a folder; it must be a file", path));
}

Status flush_folder(const std::string& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return file_error("open", folder, errno);
  if (::fsync(fd.get()) != 0) return file_error("flush", folder, errno);
  return absl::OkStatus();
}

Status write_and_flush(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return file_error("create", path, errno);
  Status status = write_all(fd, path, bytes);
  if (status.ok() && ::fsync(fd) != 0) status = file_error("flush", path, errno);
  if (::close(fd) != 0 && status.ok()) status = file_error("close", path, errno);
  return status;
}

}  // namespace

Status file_error(std::string_view action, std::string_view path, int error_number) {
  const std::string text = std::generic_category().message(error_number);
  return Status(absl::ErrnoToStatusCode(error_number),
                fmt::format("cannot {} {}: {}", action, path, text));
}

Status write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

StatusOr<std::string> read_file(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return file_error("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return file_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("cannot read {}: it is no regular file", path));
  }
  return read_all(fd.get(), path, static_cast<std::size_t>(info.st_size));
}

Status check_readable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return file_error("open", path, errno);
  if (S_ISDIR(info.st_mode)) return folder_error(path);
  if (::access(path.c_str(), R_OK) != 0) return file_error("open", path, errno);
  return absl::OkStatus();
}

Status check_writable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const bool can_create = errno == ENOENT && ::access(folder_of(path).c_str(), W_OK | X_OK) == 0;
    return can_create ? absl::OkStatus() : file_error("create", path, errno);
  }
  if (S_ISDIR(info.st_mode)) return folder_error(path);
  if (::access(path.c_str(), W_OK) != 0) return file_error("write", path, errno);
  return absl::OkStatus();
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  if (::stat(a.c_str(), &first) != 0 || ::stat(b.c_str(), &second) != 0) return false;
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  ::unlink(temporary.c_str());
  Status status = write_and_flush(temporary, bytes);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = file_error("replace", path, errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return flush_folder(folder_of(path));
}

StatusOr<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return file_error("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return file_error("read", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("cannot map {}: it is no regular file", path));
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(path, {});
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return file_error("map", path, errno);
  return MappedFile(path, {static_cast<const std::byte*>(data), size});
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  path_ = std::move(other.path_);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void drop_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + page - 1) / page * page;
  const std::uintptr_t end = (first + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace rlgen
