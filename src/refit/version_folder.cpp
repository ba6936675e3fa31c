#include "refit/version_folder.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace rlgen::refit {
namespace {

namespace fs = std::filesystem;

std::optional<WeightVersion> number_of(std::string_view name) {
  const size_t cut = name.find_last_of("_-");
  const std::string_view digits = cut == name.npos ? name : name.substr(cut + 1);
  WeightVersion version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || digits.empty() || digits[0] == '-') return std::nullopt;
  return version;
}

}  // namespace

StatusOr<std::optional<StoredVersion>> newest_version(const std::string& root,
                                                      WeightVersion at_least) {
  std::error_code error;
  std::optional<StoredVersion> newest;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const auto version = number_of(it->path().filename().string());
    std::error_code missing;
    if (!version || *version < at_least || !fs::exists(it->path() / kStableMarker, missing))
      continue;
    if (newest && newest->version == *version) {
      return absl::InvalidArgumentError(fmt::format("{} and {} are both version {}", newest->folder,
                                                    it->path().string(), *version));
    }
    if (!newest || newest->version < *version) newest = {*version, it->path().string()};
  }
  if (error) {
    return absl::NotFoundError(fmt::format("cannot list {}: {}", root, error.message()));
  }
  return newest;
}

StatusOr<StoredVersion> wait_for_version(const std::string& root, WeightVersion at_least,
                                         std::chrono::milliseconds timeout, Clock& clock,
                                         const std::function<bool()>& interrupted) {
  const auto end = clock.now() + timeout;
  while (true) {
    if (interrupted && interrupted()) {
      return absl::CancelledError(fmt::format("nobody waits for a version in {} any more", root));
    }
    RLGEN_ASSIGN_OR_RETURN(const auto found, newest_version(root, at_least));
    if (found) return *found;
    if (clock.now() >= end) break;
    clock.sleep_until(std::min(end, clock.now() + kVersionPoll));
  }
  RLGEN_ASSIGN_OR_RETURN(const auto there, newest_version(root, 0));
  return absl::DeadlineExceededError(fmt::format(
      "no version from {} on is complete in {} after {} ms; the newest one is {}", at_least, root,
      timeout.count(), there ? fmt::format("{}", there->version) : "none"));
}

}  // namespace rlgen::refit
