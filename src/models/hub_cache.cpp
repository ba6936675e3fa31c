#include "models/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "models/model.h"

namespace rlgen::models {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string trimmed(std::string text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  while (!text.empty() && blank(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

std::string how_to_download(const std::string& repository) {
  return fmt::format("download it with `hf download {}`, or give the path of a folder", repository);
}

}  // namespace

std::string hub_cache_folder() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg + "/huggingface/hub";
  }
  return variable("HOME") + "/.cache/huggingface/hub";
}

bool is_repository_id(const std::string& model) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
           c == '/';
  };
  const auto slashes = std::ranges::count(model, '/');
  return !model.empty() && std::ranges::all_of(model, allowed) && slashes <= 1 &&
         model.front() != '/' && model.front() != '.' && model.back() != '/' &&
         model.find("..") == std::string::npos;
}

StatusOr<std::string> find_in_hub_cache(const std::string& repository, const std::string& cache) {
  std::string folder = "models--" + repository;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path root = fs::path(cache) / folder;
  if (!is_folder(root)) {
    return absl::NotFoundError(
        fmt::format("model \"{}\" is neither a folder nor in the Hugging Face cache {}; {}",
                    repository, cache, how_to_download(repository)));
  }
  const fs::path reference = root / "refs" / "main";
  const StatusOr<std::string> commit = read_file(reference.string());
  if (!commit.ok()) {
    return absl::NotFoundError(fmt::format("model \"{}\": {} has no main revision ({}); {}",
                                           repository, root.string(), message_of(commit.status()),
                                           how_to_download(repository)));
  }
  const fs::path snapshot = root / "snapshots" / trimmed(*commit);
  if (is_folder(snapshot)) return snapshot.string();
  return absl::NotFoundError(fmt::format("model \"{}\": {} names {}, which is not there; {}",
                                         repository, reference.string(), snapshot.string(),
                                         how_to_download(repository)));
}

StatusOr<std::string> resolve_model_path(const std::string& model) {
  if (is_folder(model)) return model;
  if (is_repository_id(model)) return find_in_hub_cache(model, hub_cache_folder());
  return absl::NotFoundError(fmt::format(
      "model \"{}\" is no folder; give a Hugging Face folder or a repository id such as "
      "HuggingFaceTB/SmolLM2-135M-Instruct",
      model));
}

}  // namespace rlgen::models
