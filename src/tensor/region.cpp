#include "tensor/region.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"

namespace rlgen {
namespace {

// Without this size, a huge page cannot cover any of the region.
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// A mapping of no bytes is not allowed, so an empty region maps one page.
std::size_t mapped_size(std::int64_t size) {
  return static_cast<std::size_t>(std::max<std::int64_t>(size, 1));
}

Status no_room(std::string_view what, std::int64_t size, int error_number) {
  const Status cause = file_error(what, fmt::format("{} bytes of memory", size), error_number);
  return absl::ResourceExhaustedError(message_of(cause));
}

StatusOr<std::byte*> map_shared(int fd, std::int64_t size) {
  void* data = ::mmap(nullptr, mapped_size(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return no_room("map", size, errno);
  return static_cast<std::byte*>(data);
}

StatusOr<std::byte*> map_anonymous(std::int64_t size) {
  void* data = ::mmap(nullptr, mapped_size(size), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return no_room("map", size, errno);
  if (size >= kHugePage) ::madvise(data, mapped_size(size), MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace

StatusOr<std::shared_ptr<Region>> Region::create(std::int64_t size, RegionKind kind,
                                                 const std::string& name) {
  if (size < 0) {
    return absl::InvalidArgumentError(fmt::format("a region cannot have {} bytes", size));
  }
  if (kind == RegionKind::kAnonymous) {
    RLGEN_ASSIGN_OR_RETURN(std::byte* const data, map_anonymous(size));
    return std::shared_ptr<Region>(new Region(data, size, -1));
  }
  const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0) return no_room("share", size, errno);
  if (::ftruncate(fd, static_cast<off_t>(mapped_size(size))) != 0) {
    const Status status = no_room("share", size, errno);
    ::close(fd);
    return status;
  }
  auto data = map_shared(fd, size);
  if (!data.ok()) {
    ::close(fd);
    return data.status();
  }
  return std::shared_ptr<Region>(new Region(*data, size, fd));
}

StatusOr<std::shared_ptr<Region>> Region::attach(int fd, std::int64_t size) {
  if (size < 0) {
    return absl::InvalidArgumentError(fmt::format("a region cannot have {} bytes", size));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) return file_error("map", fmt::format("descriptor {}", fd), errno);
  if (info.st_size < size) {
    return absl::InvalidArgumentError(
        fmt::format("descriptor {} holds {} bytes, but a region of {} bytes was asked for", fd,
                    static_cast<std::int64_t>(info.st_size), size));
  }
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return file_error("duplicate", fmt::format("descriptor {}", fd), errno);
  auto data = map_shared(own, size);
  if (!data.ok()) {
    ::close(own);
    return data.status();
  }
  return std::shared_ptr<Region>(new Region(*data, size, own));
}

Status Region::release_pages() {
  const int failed = fd_ < 0 ? ::madvise(data_, mapped_size(size_), MADV_DONTNEED)
                             : ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                           static_cast<off_t>(mapped_size(size_)));
  if (failed == 0) return absl::OkStatus();
  return file_error("release", fmt::format("{} bytes of memory", size_), errno);
}

Region::~Region() {
  ::munmap(data_, mapped_size(size_));
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace rlgen
