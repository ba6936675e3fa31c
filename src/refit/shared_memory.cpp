#include "refit/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"

namespace rlgen::refit {
namespace {

// A mapping of no bytes is not allowed.
size_t mapped(int64_t size) { return size_t(std::max<int64_t>(size, 1)); }

StatusOr<std::byte*> map_fd(int fd, int64_t size, int protection, const std::string& name) {
  // The pages are there: for the writer mapping them at once is cheaper than a fault for each. A
  // reader's faults map 16 at a time, those alone that it reads, on all of its threads.
  const int flags = MAP_SHARED | ((protection & PROT_WRITE) != 0 ? MAP_POPULATE : 0);
  void* data = ::mmap(nullptr, mapped(size), protection, flags, fd, 0);
  if (data == MAP_FAILED) return file_error("map shared memory", name, errno);
  return static_cast<std::byte*>(data);
}

}  // namespace

SharedMemory::SharedMemory(std::string name, std::byte* data, int64_t size, bool owner)
    : name_(std::move(name)), data_(data), size_(size), owner_(owner) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(owner_, other.owner_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  ::munmap(data_, mapped(size_));
  if (owner_) ::shm_unlink(name_.c_str());
}

StatusOr<SharedMemory> SharedMemory::create(const std::string& name, int64_t size) {
  const Descriptor fd(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return file_error("make shared memory", name, errno);
  // Room is taken now: a full /dev/shm is an error here and no SIGBUS at the first touch.
  const int failed = ::posix_fallocate(fd.get(), 0, off_t(mapped(size)));
  auto data = failed == 0 ? map_fd(fd.get(), size, PROT_READ | PROT_WRITE, name)
                          : file_error("make shared memory", name, failed);
  if (!data.ok()) {
    ::shm_unlink(name.c_str());
    return data.status();
  }
  return SharedMemory(name, *data, size, /*owner=*/true);
}

StatusOr<SharedMemory> SharedMemory::open(const std::string& name, int64_t size) {
  if (name.empty() || name.find('/', 1) != std::string::npos || name.find('\0') != name.npos) {
    return absl::InvalidArgumentError(fmt::format("'{}' is no name of shared memory", name));
  }
  const std::string path = name[0] == '/' ? name : "/" + name;
  const Descriptor fd(::shm_open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!fd.valid()) return file_error("open shared memory", name, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return file_error("open shared memory", name, errno);
  if (size < 0 || info.st_size < size) {
    return absl::InvalidArgumentError(
        fmt::format("shared memory {} has {} bytes and was said to have {}", name,
                    int64_t(info.st_size), size));
  }
  RLGEN_ASSIGN_OR_RETURN(std::byte* const data, map_fd(fd.get(), size, PROT_READ, name));
  return SharedMemory(name, data, size, /*owner=*/false);
}

}  // namespace rlgen::refit
