#include "models/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/edit_distance.h"
#include "models/config_keys.h"
#include "models/json_document.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

template <typename T>
std::string describe(std::string_view kind, Bounds<T> bounds) {
  const Bounds<T> all;
  if (bounds.low != all.low && bounds.high != all.high) {
    return fmt::format("{} from {} to {}", kind, bounds.low, bounds.high);
  }
  if (bounds.low != all.low) return fmt::format("{} of at least {}", kind, bounds.low);
  return std::string(kind);
}

template <typename T>
T nearest(T value, Bounds<T> bounds) {
  return std::clamp(value, bounds.low, bounds.high);
}

std::optional<int32_t> as_integer(const json& value, Bounds<int32_t> bounds) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT32_MAX)) {
    return std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  if (number < bounds.low || number > bounds.high) return std::nullopt;
  return int32_t(number);
}

std::optional<double> as_number(const json& value, Bounds<double> bounds) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < bounds.low || number > bounds.high) return std::nullopt;
  return number;
}

}  // namespace

ConfigReader::ConfigReader(const json& root, std::string file)
    : root_(root), file_(std::move(file)) {
  if (!root_.is_object()) {
    fail(absl::InvalidArgumentError(
        fmt::format("{}: holds {}, expected an object", file_, root_.type_name())));
  }
}

void ConfigReader::fail(Status error) {
  if (status_.ok()) status_ = std::move(error);
}

void ConfigReader::reject(const std::string& key, std::string_view message) {
  const json* value = find(key);
  fail(absl::InvalidArgumentError(
      fmt::format("{}: {} is {}, {}", file_, key, value ? show_json(*value) : "missing", message)));
}

const json* ConfigReader::find(const std::string& key) {
  read_.insert(key);
  const json* value = &root_;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    if (!value->is_object()) return nullptr;
    const auto member = value->find(key.substr(begin, end - begin));
    if (member == value->end()) return nullptr;
    value = &*member;
    begin = end + 1;
  }
  return value->is_null() ? nullptr : value;
}

const json* ConfigReader::raw(const std::string& key) { return find(key); }

bool ConfigReader::has(const std::string& key) { return find(key) != nullptr; }

bool ConfigReader::mentions(const std::string& key) {
  read_.insert(key);
  return root_.is_object() && root_.contains(key);
}

void ConfigReader::expected(const std::string& key, const json& value, std::string_view what) {
  fail(absl::InvalidArgumentError(
      fmt::format("{}: {} is {}, expected {}", file_, key, show_json(value), what)));
}

bool ConfigReader::require(const std::string& key) {
  if (find(key) != nullptr) return true;
  fail(absl::InvalidArgumentError(fmt::format("{}: {} is missing", file_, key)));
  return false;
}

int32_t ConfigReader::integer(const std::string& key, Bounds<int32_t> bounds) {
  const int32_t harmless = nearest(1, bounds);
  return require(key) ? integer_or(key, harmless, bounds) : harmless;
}

int32_t ConfigReader::integer_or(const std::string& key, int32_t otherwise,
                                 Bounds<int32_t> bounds) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<int32_t> number = as_integer(*value, bounds);
  if (number) return *number;
  expected(key, *value, describe("an integer", bounds));
  return nearest(otherwise, bounds);
}

double ConfigReader::number(const std::string& key, Bounds<double> bounds) {
  const double harmless = nearest(1.0, bounds);
  return require(key) ? number_or(key, harmless, bounds) : harmless;
}

double ConfigReader::number_or(const std::string& key, double otherwise, Bounds<double> bounds) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  const std::optional<double> number = as_number(*value, bounds);
  if (number) return *number;
  expected(key, *value, describe("a finite number", bounds));
  return nearest(otherwise, bounds);
}

bool ConfigReader::flag_or(const std::string& key, bool otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  expected(key, *value, "true or false");
  return otherwise;
}

std::string ConfigReader::text(const std::string& key) {
  return require(key) ? text_or(key, {}) : std::string();
}

std::string ConfigReader::text_or(const std::string& key, std::string otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  expected(key, *value, "a string");
  return otherwise;
}

std::vector<double> ConfigReader::numbers(const std::string& key, Bounds<double> bounds) {
  std::vector<double> result;
  const json* value = find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) expected(key, *value, "a list of numbers");
  for (size_t i = 0; value->is_array() && i < value->size(); ++i) {
    const std::optional<double> number = as_number((*value)[i], bounds);
    if (!number) {
      expected(fmt::format("{}[{}]", key, i), (*value)[i], describe("a finite number", bounds));
    }
    result.push_back(number.value_or(nearest(1.0, bounds)));
  }
  return result;
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  std::vector<std::string> result;
  const json* value = find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) expected(key, *value, "a list of strings");
  for (size_t i = 0; value->is_array() && i < value->size(); ++i) {
    const json& item = (*value)[i];
    if (!item.is_string()) expected(fmt::format("{}[{}]", key, i), item, "a string");
    result.push_back(item.is_string() ? item.get<std::string>() : std::string());
  }
  return result;
}

Status ConfigReader::check_key(const std::string& key, const json& value, std::string_view family) {
  const std::string prefix = key + ".";
  const bool inside = value.is_object() && std::ranges::any_of(read_, [&](const std::string& name) {
                        return name.starts_with(prefix);
                      });
  if (inside) {
    for (const auto& item : value.items()) {
      RLGEN_RETURN_IF_ERROR(check_key(prefix + item.key(), item.value(), family));
    }
    return absl::OkStatus();
  }
  if (value.is_null() || read_.contains(key)) return absl::OkStatus();
  switch (judge_key(key, value)) {
    case KeyJudgement::kHarmless:
      return absl::OkStatus();
    case KeyJudgement::kChangesArithmetic:
      return absl::UnimplementedError(
          fmt::format("{}: {} is {}: {}, which is not implemented for the {} family", file_, key,
                      show_json(value), describe_key(key), family));
    case KeyJudgement::kUnknown:
      break;
  }
  const std::vector<std::string> known(read_.begin(), read_.end());
  return absl::UnimplementedError(
      fmt::format("{}: {} is {}: not a key of the {} family{}; since it may change what the model "
                  "computes, the "
                  "model is refused. Set it to null if it changes nothing",
                  file_, key, show_json(value), family, suggest(key, known)));
}

Status ConfigReader::finish(std::string_view family) {
  RLGEN_RETURN_IF_ERROR(status_);
  for (const auto& item : root_.items()) {
    // A dot in the file's own key would read as a path.
    if (item.key().find('.') != std::string::npos) read_.erase(item.key());
    fail(check_key(item.key(), item.value(), family));
  }
  return status_;
}

}  // namespace rlgen::models
