#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "models/json_document.h"
#include "models/safetensors.h"

namespace rlgen::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string>;  // tensor -> file name

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

StatusOr<WeightMap> read_index(const std::string& path) {
  RLGEN_ASSIGN_OR_RETURN(const json index, read_json_file(path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::DataLossError(fmt::format("{}: no \"weight_map\" object", path));
  }
  WeightMap map;
  for (const auto& item : index["weight_map"].items()) {
    const json& file = item.value();
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      return absl::DataLossError(
          fmt::format("{}: weight_map.{} is {}, expected the name of a file "
                      "beside the index",
                      path, item.key(), show_json(file)));
    }
    map.emplace(item.key(), file.get<std::string>());
  }
  if (map.empty()) return absl::DataLossError(fmt::format("{}: weight_map is empty", path));
  return map;
}

std::set<std::string> files_of(const WeightMap& map) {
  std::set<std::string> files;
  for (const auto& [tensor, file] : map) files.insert(file);
  return files;
}

Status check_files_exist(const fs::path& folder, const std::set<std::string>& files) {
  std::vector<std::string> missing;
  for (const std::string& file : files) {
    if (!is_there(folder / file)) missing.push_back(file);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      fmt::format("{}: {} names files that are not in the folder: {}; "
                  "download them",
                  folder.string(), kIndexFile, fmt::join(missing, ", ")));
}

std::vector<std::string> other_files(const fs::path& folder, const std::set<std::string>& used) {
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors" && !used.contains(name)) others.push_back(name);
  }
  std::ranges::sort(others);
  return others;
}

Status no_weights(const fs::path& folder) {
  std::string advice = "this engine reads safetensors";
  if (is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json")) {
    advice =
        "it holds pytorch_model.bin: load it with Transformers and save it again, which writes "
        "safetensors";
  }
  return absl::NotFoundError(fmt::format("{}: neither {} nor {} is there; {}", folder.string(),
                                         kSingleFile, kIndexFile, advice));
}

}  // namespace

Status SafetensorsFolder::add_file(const std::string& path) {
  RLGEN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  RLGEN_ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors, parse_safetensors(file.bytes(), path));
  files_.push_back(std::move(file));
  std::ranges::move(tensors, std::back_inserter(tensors_));
  return absl::OkStatus();
}

void SafetensorsFolder::sort_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::ranges::stable_sort(by_name_, {},
                           [this](uint32_t i) -> const std::string& { return tensors_[i].name; });
}

Status SafetensorsFolder::index_names() {
  sort_names();
  const auto name_of = [this](uint32_t i) -> const std::string& { return tensors_[i].name; };
  const auto twin = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twin == by_name_.end()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("tensor \"{}\" stands in both {} and {}", name_of(*twin),
                                         tensors_[*twin].file, tensors_[*(twin + 1)].file));
}

StatusOr<SafetensorsFolder> SafetensorsFolder::open(const std::string& folder) {
  const fs::path root(folder);
  SafetensorsFolder result;
  WeightMap map;
  std::set<std::string> files = {kSingleFile};
  const bool single = is_there(root / kSingleFile);
  if (!single) {
    if (!is_there(root / kIndexFile)) return no_weights(root);
    RLGEN_ASSIGN_OR_RETURN(map, read_index((root / kIndexFile).string()));
    files = files_of(map);
    RLGEN_RETURN_IF_ERROR(check_files_exist(root, files));
  }
  for (const std::string& file : files) {
    RLGEN_RETURN_IF_ERROR(result.add_file((root / file).string()));
  }
  RLGEN_RETURN_IF_ERROR(result.index_names());
  for (const auto& [tensor, file] : map) {
    const StoredTensor* stored = result.find(tensor);
    if (stored != nullptr && stored->file == (root / file).string()) continue;
    return absl::DataLossError(fmt::format("{}: the index says that tensor \"{}\" is in {}, but {}",
                                           (root / kIndexFile).string(), tensor, file,
                                           stored ? "it is in " + stored->file : "it is not"));
  }
  for (const StoredTensor& tensor : result.tensors_) {
    if (single || map.contains(tensor.name)) continue;
    return absl::DataLossError(
        fmt::format("{}: tensor \"{}\" is not listed in {}", tensor.file, tensor.name, kIndexFile));
  }
  result.ignored_files_ = other_files(root, files);
  return result;
}

const StoredTensor* SafetensorsFolder::find(std::string_view name) const {
  const auto name_of = [this](uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto at = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return at == by_name_.end() || name_of(*at) != name ? nullptr : &tensors_[*at];
}

void SafetensorsFolder::leave_out(absl::FunctionRef<bool(std::string_view)> unwanted) {
  std::erase_if(tensors_, [&](const StoredTensor& tensor) { return unwanted(tensor.name); });
  sort_names();
}

std::vector<ManifestEntry> SafetensorsFolder::manifest() const {
  std::vector<ManifestEntry> entries;
  entries.reserve(tensors_.size());
  for (const StoredTensor& tensor : tensors_) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  return entries;
}

}  // namespace rlgen::models
