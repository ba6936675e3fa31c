#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace rlgen::refit {

// A piece of POSIX shared memory, found by its name ("/rlgen-..."): in place of the GPU handle of a
// sender of weights. Move only. Two processes that hold it see the same bytes.
class SharedMemory {
 public:
  // New memory of zeroed bytes; its name goes with the object. kAlreadyExists, kResourceExhausted
  // where the system has no room for all of it.
  static StatusOr<SharedMemory> create(const std::string& name, int64_t size);

  // Read-only, of another process (Python's multiprocessing.shared_memory too, whose names lack the
  // slash). Whoever made it removes the name. kNotFound; kInvalidArgument for a name with a slash
  // inside or memory of fewer bytes than `size`.
  static StatusOr<SharedMemory> open(const std::string& name, int64_t size);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_t(size_)}; }
  std::span<std::byte> writable() { return {data_, owner_ ? size_t(size_) : 0}; }

 private:
  SharedMemory(std::string name, std::byte* data, int64_t size, bool owner);

  std::string name_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  bool owner_ = false;
};

}  // namespace rlgen::refit
