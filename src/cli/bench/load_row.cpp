#include "cli/bench/load_row.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/file.h"
#include "cli/bench/stopwatch.h"
#include "tensor/region.h"

namespace rlgen::cli {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

using Buffers = std::vector<std::vector<std::byte>>;

// Reads the whole file in pieces, each thread into its buffer.
Status read_once(const std::string& path, ThreadPool& pool, Buffers* buffers) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return file_error("open", path, errno);
  struct stat facts {};
  if (::fstat(file, &facts) != 0) {
    const int error = errno;
    ::close(file);
    return file_error("look at", path, error);
  }
  std::atomic<int> error{0};
  const int64_t pieces = (int64_t{facts.st_size} + kPieceBytes - 1) / kPieceBytes;
  pool.run(pieces, [&](int64_t piece, int thread) {
    std::byte* const buffer = (*buffers)[static_cast<size_t>(thread)].data();
    const int64_t begin = piece * kPieceBytes;
    const int64_t end = std::min<int64_t>(begin + kPieceBytes, facts.st_size);
    for (int64_t at = begin; at < end;) {
      const ssize_t got = ::pread(file, buffer, static_cast<size_t>(end - at), at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        error = got < 0 ? errno : EIO;
        return;
      }
      at += got;
    }
  });
  ::close(file);
  return error == 0 ? absl::OkStatus() : file_error("read", path, error);
}

}  // namespace

StatusOr<LoadLimit> measure_load_limit(const std::vector<std::string>& files, int64_t bytes,
                                       ThreadPool& pool) {
  Buffers buffers(static_cast<size_t>(pool.num_threads()),
                  std::vector<std::byte>(static_cast<size_t>(kPieceBytes), std::byte{1}));
  LoadLimit limit;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& path : files) RLGEN_RETURN_IF_ERROR(read_once(path, pool, &buffers));
  limit.pass = seconds_since(start);
  RLGEN_ASSIGN_OR_RETURN(const auto region, Region::create(bytes));
  const auto copy_start = std::chrono::steady_clock::now();
  pool.run((bytes + kPieceBytes - 1) / kPieceBytes, [&](int64_t piece, int thread) {
    const int64_t begin = piece * kPieceBytes;
    std::memcpy(region->data() + begin, buffers[static_cast<size_t>(thread)].data(),
                static_cast<size_t>(std::min(kPieceBytes, bytes - begin)));
  });
  limit.copy = seconds_since(copy_start);
  return limit;
}

}  // namespace rlgen::cli
