#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "contract/weight_sink.h"

namespace rlgen::models {

// A tensor of a mapped file. `bytes` may start at any address: no alignment is promised.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;  // valid while the folder object lives
  std::string file;
};

// Longest header that is accepted, in bytes (the format's own limit).
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// The tensors of a file image, in the order of their bytes. Format: 8 bytes little-endian length of
// the header, the header (a JSON object that maps names to dtype, shape and data_offsets, plus an
// optional __metadata__ of strings), the data. kDataLoss names file, tensor and the two values that
// disagree: wrong header length, not JSON, unknown dtype, ranges that overlap, leave a gap, do not
// match the shape or leave the file, duplicate names, trailing bytes.
StatusOr<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file,
                                                      const std::string& file_name);

// All tensors of a checkpoint folder: those of `model.safetensors`, or where that is missing those
// of the files that `model.safetensors.index.json` names. Move-only; reading is thread-safe.
class SafetensorsFolder {
 public:
  // kNotFound: neither file, or files of the index missing (each listed); kDataLoss: those of
  // parse_safetensors, a tensor that stands in two files, index and files that disagree.
  static StatusOr<SafetensorsFolder> open(const std::string& folder);

  // In file order.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // null when there is none
  // Forgets the tensors whose names `unwanted` holds for, as if the folder had none of them.
  void leave_out(absl::FunctionRef<bool(std::string_view)> unwanted);
  std::vector<ManifestEntry> manifest() const;
  // Safetensors files of the folder that the index does not list, reported, never read.
  const std::vector<std::string>& ignored_files() const { return ignored_files_; }

 private:
  Status add_file(const std::string& path);
  void sort_names();
  Status index_names();

  std::vector<MappedFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors_ in order of name
  std::vector<std::string> ignored_files_;
};

}  // namespace rlgen::models
