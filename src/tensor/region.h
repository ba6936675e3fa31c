#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace rlgen {

enum class RegionKind {
  kAnonymous,  // this process only; transparent huge pages where the system has them
  kShared,     // backed by a file descriptor that other processes can map
};

// A block of zeroed memory, page aligned, owned through shared_ptr: the last holder frees it. The
// object is immutable but for the bytes; who may write them when is the holders' affair. Pages
// are made on first touch, which costs far more than a later write.
class Region {
 public:
  // `name` shows in the process's memory map for shared regions. Errors: kInvalidArgument for a
  // negative size, kResourceExhausted when the system has no room.
  static StatusOr<std::shared_ptr<Region>> create(std::int64_t size,
                                                  RegionKind kind = RegionKind::kAnonymous,
                                                  const std::string& name = "rlgen");

  // Maps the shared region behind `fd` (of another process, say); `fd` is duplicated, the caller
  // keeps its own. Errors: kInvalidArgument when the file is smaller than `size`; file_error's.
  static StatusOr<std::shared_ptr<Region>> attach(int fd, std::int64_t size);

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  // Gives the memory back to the system: the bytes are zero from then on, and pages are made again
  // where they are touched. Nobody may touch them meanwhile. Errors: file_error's.
  Status release_pages();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, static_cast<std::size_t>(size_)}; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  RegionKind kind() const { return fd_ < 0 ? RegionKind::kAnonymous : RegionKind::kShared; }

  // Descriptor of a shared region, owned by the region; -1 for an anonymous one.
  int fd() const { return fd_; }

 private:
  Region(std::byte* data, std::int64_t size, int fd) : data_(data), size_(size), fd_(fd) {}

  std::byte* data_;
  std::int64_t size_;
  int fd_;
};

}  // namespace rlgen
