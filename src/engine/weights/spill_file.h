#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/status.h"

namespace rlgen::engine {

// Bytes put aside in a file without a name: it is gone with the object, and with the process
// whatever end that finds. Move only; one thread at a time.
class SpillFile {
 public:
  // Writes `bytes` to a new file in `folder`. Errors: file_error's, with the folder.
  static StatusOr<SpillFile> write(std::span<const std::byte> bytes, const std::string& folder);

  // Reads all of them back into `bytes`, which has as many. kDataLoss when they are not those that
  // were written; file_error's.
  Status read(std::span<std::byte> bytes) const;

  int64_t size() const { return size_; }

 private:
  SpillFile(Descriptor fd, int64_t size, Digest digest, std::string folder);

  Descriptor fd_;
  int64_t size_ = 0;
  Digest digest_;
  std::string folder_;
};

}  // namespace rlgen::engine
