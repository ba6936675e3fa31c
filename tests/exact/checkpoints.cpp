#include "exact/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/model.h"

namespace rlgen {
namespace {

// The family of a model with experts; empty for any other.
std::string sparse_family(const std::string& name) {
  const auto model = models::open_model(checkpoint_folder(name), 0);
  if (!model.ok() || models::route_axis(model->decoder.spec).layers == 0) return {};
  return model->decoder.spec.family;
}

}  // namespace

std::string checkpoint_folder(const std::string& name) {
  return "tests/fixtures/checkpoints/" + name;
}

std::vector<std::string> tiny_checkpoints() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint_folder(""))) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("table_")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> sparse_checkpoints() {
  std::vector<std::string> names = tiny_checkpoints();
  std::erase_if(names, [](const std::string& name) { return sparse_family(name).empty(); });
  return names;
}

std::vector<std::string> sparse_families() {
  std::set<std::string> met = {""};
  std::vector<std::string> names = tiny_checkpoints();
  std::erase_if(names,
                [&](const std::string& name) { return !met.insert(sparse_family(name)).second; });
  return names;
}

}  // namespace rlgen
