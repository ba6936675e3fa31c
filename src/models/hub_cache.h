#pragma once

#include <string>

#include "base/status.h"

namespace rlgen::models {

// Where Hugging Face keeps downloaded repositories: HF_HUB_CACHE, else HF_HOME/hub, else
// XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. Reads the environment.
std::string hub_cache_folder();

// True for "name" and "org/name" of letters, digits, '.', '_' and '-', not beginning with a dot.
bool is_repository_id(const std::string& model);

// The snapshot folder of a repository's main branch under `cache`. kNotFound says what is missing
// and how to download it.
StatusOr<std::string> find_in_hub_cache(const std::string& repository, const std::string& cache);

}  // namespace rlgen::models
