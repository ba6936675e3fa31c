#pragma once

#include <filesystem>
#include <memory>
#include <utility>

#include "base/status.h"
#include "models/safetensors.h"

namespace rlgen::cli {

// A checkpoint as a trainer has just saved it, in a temporary folder that goes with the object: in
// large writes, which leave large pages in the page cache where the file system can. A download in
// small pieces leaves small ones, and mapping those costs as much as copying them. Move only.
class SavedCheckpoint {
 public:
  // The files of `from`, written anew. Errors: those of files.
  static StatusOr<SavedCheckpoint> create(const models::SafetensorsFolder& from);

  const models::SafetensorsFolder& tensors() const { return tensors_; }

 private:
  struct Removal {
    void operator()(const std::filesystem::path* path) const;
  };
  using Folder = std::unique_ptr<const std::filesystem::path, Removal>;

  SavedCheckpoint(Folder folder, models::SafetensorsFolder tensors)
      : folder_(std::move(folder)), tensors_(std::move(tensors)) {}

  Folder folder_;
  models::SafetensorsFolder tensors_;
};

}  // namespace rlgen::cli
