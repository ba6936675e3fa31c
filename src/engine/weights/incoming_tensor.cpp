#include "engine/weights/incoming_tensor.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/hash.h"
#include "engine/weights/read_back.h"

namespace rlgen::engine {
namespace {

size_t bytes_of(const Shape& shape, DType dtype) {
  return size_t(shape.num_elements()) * size_t(size_of(dtype));
}

// The bytes of a matrix in the type of its slot, converted as packing does it.
std::vector<std::byte> as_held(const TensorTarget& target, const std::vector<std::byte>& sent) {
  if (!target.cast()) return sent;
  models::NameTable alone;
  alone.slots = {target.slot()};
  alone.slots[0].offset = 0;
  models::WeightEntry entry = *target.entry;
  entry.slot = 0;
  const int64_t rows = entry.rows();
  std::vector<std::byte> packed(alone.slots[0].bytes);
  models::write_rows(alone, entry, target.sent, 0, rows, sent.data(), packed.data());
  std::vector<std::byte> held(bytes_of(entry.shape, alone.slots[0].dtype));
  models::read_rows(alone, entry, alone.slots[0].dtype, 0, rows, packed.data(), held.data());
  return held;
}

}  // namespace

IncomingTensor::IncomingTensor(TensorTarget target, std::byte* region)
    : target_(std::move(target)),
      region_(region),
      size_(bytes_of(target_.entry->shape, target_.sent)),
      row_bytes_(size_t(size_of(target_.sent) * target_.entry->row_size())),
      complete_(size_ == 0),
      changed_(target_.served == nullptr) {}

Status IncomingTensor::check_range(size_t offset, size_t size) const {
  if (offset <= size_ && size <= size_ - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("tensor {}: {} bytes at {} are outside its {} bytes", target_.entry->name, size,
                  offset, size_));
}

bool IncomingTensor::begins_group(size_t offset) const {
  return offset % row_bytes_ == 0 &&
         models::begins_group(*target_.table, *target_.entry, int64_t(offset / row_bytes_));
}

bool IncomingTensor::packs_at_once(size_t offset, size_t size) const {
  if (target_.alias) return false;
  if (size == size_) return true;
  if (!target_.is_matrix() || target_.cast()) return false;
  return begins_group(offset) && begins_group(offset + size);
}

Status IncomingTensor::write(size_t offset, std::span<const std::byte> bytes) {
  RLGEN_RETURN_IF_ERROR(check_range(offset, bytes.size()));
  if (bytes.empty()) return absl::OkStatus();
  const bool whole = bytes.size() == size_;
  if (whole && !target_.digest.empty()) RLGEN_RETURN_IF_ERROR(check_digest(digest_of(bytes).hex()));
  const bool direct = packs_at_once(offset, bytes.size());
  {
    std::lock_guard lock(mutex_);
    if (!claimed_.add(offset, offset + bytes.size())) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: bytes [{}, {}) overlap bytes that were written before",
                      target_.entry->name, offset, offset + bytes.size()));
    }
    digest_checked_ = digest_checked_ || whole;
    if (!direct) {
      staged_.add(offset, offset + bytes.size());
      if (staging_.empty()) target_.staging->add(int64_t(size_));
      staging_.resize(size_);
    }
  }
  if (direct) {
    place(offset, bytes);
  } else {
    std::memcpy(staging_.data() + offset, bytes.data(), bytes.size());
  }
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    arrived_ += bytes.size();
    last = arrived_ == size_;
  }
  if (!last) return absl::OkStatus();
  if (!target_.alias) place_staged();
  std::lock_guard lock(mutex_);
  complete_ = true;
  return absl::OkStatus();
}

void IncomingTensor::place(size_t offset, std::span<const std::byte> bytes) {
  const auto row = int64_t(offset / row_bytes_);
  const auto rows = int64_t(bytes.size() / row_bytes_);
  models::write_rows(*target_.table, *target_.entry, target_.sent, row, rows, bytes.data(),
                     region_);
  if (changed_) return;
  if (models::rows_differ(*target_.table, *target_.entry, row, rows, region_, target_.served)) {
    changed_ = true;
  }
}

// Directly placed ranges hold whole rows, so the merged staged ranges do too.
void IncomingTensor::place_staged() {
  if (target_.cast()) staged_digest_ = digest_of(std::span<const std::byte>(staging_)).hex();
  for (const auto& [begin, end] : staged_.ranges()) {
    place(begin, std::span(staging_).subspan(begin, end - begin));
  }
  std::vector<std::byte>().swap(staging_);
  target_.staging->add(-int64_t(size_));
}

// The rows of an alias are another tensor's to place.
bool IncomingTensor::changed() const {
  if (changed_ || !target_.alias) return changed_;
  return models::rows_differ(*target_.table, *target_.entry, 0, target_.entry->rows(), region_,
                             target_.served);
}

bool IncomingTensor::complete() const {
  std::lock_guard lock(mutex_);
  return complete_;
}

std::string IncomingTensor::gap() const {
  std::lock_guard lock(mutex_);
  return fmt::format("{}: byte {} of {} is missing", target_.entry->name, claimed_.first_gap(),
                     size_);
}

Status IncomingTensor::check_digest(const std::string& found) const {
  if (found == target_.digest) return absl::OkStatus();
  return absl::DataLossError(fmt::format("tensor {}: digest is {} and the manifest says {}",
                                         target_.entry->name, found, target_.digest));
}

Status IncomingTensor::verify_alias(const models::WeightSet& filled) const {
  RLGEN_ASSIGN_OR_RETURN(const auto served,
                         read_tensor(filled, target_.entry->name, target_.slot().dtype));
  if (served == as_held(target_, staging_)) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("tensor {} differs from the tensor whose rows it names a second time; the model "
                  "keeps one copy",
                  target_.entry->name));
}

Status IncomingTensor::verify(const models::WeightSet& filled) const {
  std::lock_guard lock(mutex_);
  const bool check = !target_.digest.empty() && !digest_checked_;
  if (target_.alias) {
    if (check)
      RLGEN_RETURN_IF_ERROR(check_digest(digest_of(std::span<const std::byte>(staging_)).hex()));
    return verify_alias(filled);
  }
  if (!check) return absl::OkStatus();
  if (target_.cast()) return check_digest(staged_digest_);
  RLGEN_ASSIGN_OR_RETURN(const std::string found,
                         tensor_checksum(filled, target_.entry->name, target_.sent));
  return check_digest(found);
}

}  // namespace rlgen::engine
