#include "cli/bench/saved_checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace rlgen::cli {
namespace {

namespace fs = std::filesystem;

// From memory, as a trainer has them: from a mapping, whose pages may not be there, the kernel
// writes in small pieces.
Status save_again(const fs::path& from, const fs::path& to) {
  RLGEN_ASSIGN_OR_RETURN(const std::string bytes, read_file(from.string()));
  return write_file_atomically(to.string(), bytes);
}

}  // namespace

void SavedCheckpoint::Removal::operator()(const fs::path* path) const {
  std::error_code failed;
  fs::remove_all(*path, failed);
  delete path;
}

StatusOr<SavedCheckpoint> SavedCheckpoint::create(const models::SafetensorsFolder& from) {
  Folder folder(
      new fs::path(fs::temp_directory_path() / fmt::format("rlgen-bench-{}", ::getpid())));
  std::error_code failed;
  fs::create_directory(*folder, failed);
  if (failed) return file_error("make", folder->string(), failed.value());
  std::set<fs::path> files;
  for (const models::StoredTensor& tensor : from.tensors()) files.insert(tensor.file);
  const fs::path index = files.begin()->parent_path() / "model.safetensors.index.json";
  if (fs::exists(index, failed)) files.insert(index);
  for (const fs::path& file : files) {
    RLGEN_RETURN_IF_ERROR(save_again(file, *folder / file.filename()));
  }
  RLGEN_ASSIGN_OR_RETURN(auto tensors, models::SafetensorsFolder::open(folder->string()));
  return SavedCheckpoint(std::move(folder), std::move(tensors));
}

}  // namespace rlgen::cli
