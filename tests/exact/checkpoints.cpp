#include "exact/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/model.h"

namespace rlgen {
namespace {

models::DecoderSpec spec_of(const std::string& name) {
  auto model = models::open_model(checkpoint_folder(name), 0);
  return model.ok() ? model->decoder.spec : models::DecoderSpec();
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

std::vector<std::string> families_of_checkpoints() {
  std::set<std::string> met;
  std::vector<std::string> names = tiny_checkpoints();
  std::erase_if(names,
                [&](const std::string& name) { return !met.insert(spec_of(name).family).second; });
  return names;
}

std::vector<std::string> sparse_checkpoints() {
  std::vector<std::string> names = tiny_checkpoints();
  std::erase_if(
      names, [](const std::string& name) { return models::route_axis(spec_of(name)).layers == 0; });
  return names;
}

}  // namespace rlgen
