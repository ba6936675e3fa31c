#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "contract/weight_sink.h"

namespace rlgen::models {

// A tensor of a mapped file.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;  // valid while the folder object lives
  std::string file;
};

// The tensors of a header, with offsets relative to the data section. kDataLoss names the fault:
// wrong header length, not JSON, unknown dtype, ranges that overlap, leave a gap, do not match the
// shape or leave the file, duplicate names, trailing bytes.
StatusOr<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file,
                                                      const std::string& file_name);

// All tensors of a checkpoint folder: `model.safetensors` or the files of its index. Move-only.
class SafetensorsFolder {
 public:
  static StatusOr<SafetensorsFolder> open(const std::string& folder);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  std::vector<ManifestEntry> manifest() const;
  // Files of the folder that the index does not list, reported, never read.
  const std::vector<std::string>& ignored_files() const { return ignored_files_; }

 private:
  std::vector<MappedFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> ignored_files_;
};

}  // namespace rlgen::models
