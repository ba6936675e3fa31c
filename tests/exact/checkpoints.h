#pragma once

#include <string>
#include <vector>

namespace rlgen {

// The tiny checkpoints that are models (no table checkpoints), by name. Paths are relative to the
// repository root.
std::vector<std::string> tiny_checkpoints();
std::string checkpoint_folder(const std::string& name);

// The first of them of each family.
std::vector<std::string> families_of_checkpoints();
// Those of them whose model has experts.
std::vector<std::string> sparse_checkpoints();

}  // namespace rlgen
