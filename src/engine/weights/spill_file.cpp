#include "engine/weights/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace rlgen::engine {
namespace {

constexpr size_t kPiece = size_t(64) << 20;

StatusOr<Descriptor> open_nameless(const std::string& folder) {
  std::string path = folder + "/rlgen_spill_XXXXXX";
  Descriptor fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return file_error("create a file in", folder, errno);
  ::unlink(path.c_str());
  return fd;
}

}  // namespace

SpillFile::SpillFile(Descriptor fd, int64_t size, Digest digest, std::string folder)
    : fd_(std::move(fd)), size_(size), digest_(digest), folder_(std::move(folder)) {}

StatusOr<SpillFile> SpillFile::write(std::span<const std::byte> bytes, const std::string& folder) {
  RLGEN_ASSIGN_OR_RETURN(auto fd, open_nameless(folder));
  SpillFile file(std::move(fd), int64_t(bytes.size()), Digest{}, folder);
  DigestStream digest;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.fd_.get(), bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error("spill weights to", folder, errno);
    digest.update(bytes.first(size_t(written)));
    bytes = bytes.subspan(size_t(written));
  }
  file.digest_ = digest.digest();
  return file;
}

Status SpillFile::read(std::span<std::byte> bytes) const {
  DigestStream digest;
  int64_t at = 0;
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_.get(), bytes.data(), std::min(bytes.size(), kPiece), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read spilled weights from", folder_, errno);
    if (got == 0) break;
    digest.update(std::span<const std::byte>(bytes).first(size_t(got)));
    bytes = bytes.subspan(size_t(got));
    at += got;
  }
  if (at == size_ && bytes.empty() && digest.digest() == digest_) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("the weights that were spilled to {} are damaged; send an update", folder_));
}

}  // namespace rlgen::engine
