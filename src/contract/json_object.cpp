#include "contract/json_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/edit_distance.h"
#include "contract/error_type.h"

namespace rlgen {

JsonObject::JsonObject(const nlohmann::json& value, std::string path)
    : value_(value), path_(std::move(path)) {
  if (!value.is_object()) status_ = wrong_type(JsonField{path_, value}, "an object");
}

std::string JsonObject::name_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const nlohmann::json* JsonObject::find(std::string_view key) {
  known_.emplace(key);
  if (!value_.is_object()) return nullptr;
  const auto found = value_.find(std::string(key));
  return found == value_.end() ? nullptr : &*found;
}

void JsonObject::note(const Status& status) {
  if (status_.ok()) status_ = status;
}

Status JsonObject::unknown_keys() const {
  for (const auto& [key, value] : value_.items()) {
    if (known_.contains(key)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is no known key{}", name_of(key), suggest(key, known_)));
  }
  return absl::OkStatus();
}

Status JsonObject::finish() const {
  if (!value_.is_object()) return status_;
  RLGEN_RETURN_IF_ERROR(unknown_keys());
  RLGEN_RETURN_IF_ERROR(status_);
  if (missing_.empty()) return absl::OkStatus();
  std::vector<std::string> provided;
  for (const auto& [key, value] : value_.items()) provided.push_back(key);
  return with_error_type(
      absl::InvalidArgumentError(fmt::format("{} lacks the keys {}; it has {}", path_,
                                             fmt::join(missing_, ", "), fmt::join(provided, ", "))),
      "AssertionError");
}

}  // namespace rlgen
