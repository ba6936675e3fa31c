#include "contract/json_value.h"

#include <cmath>
#include <limits>

namespace rlgen {
namespace {

using nlohmann::json;

template <typename T>
Status read_integer(const JsonField& field, T* out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  constexpr auto kLow = std::numeric_limits<T>::min();
  constexpr auto kHigh = std::numeric_limits<T>::max();
  const auto wanted = fmt::format("a whole number from {} to {}", kLow, kHigh);
  if (field.value.is_number_unsigned()) {
    const auto value = field.value.get<uint64_t>();
    if (value > static_cast<uint64_t>(kHigh)) return wrong_type(field, wanted);
    *out = static_cast<T>(value);
    return absl::OkStatus();
  }
  if (field.value.is_number_integer()) {
    const auto value = field.value.get<int64_t>();
    if (value < kLow || value > kHigh) return wrong_type(field, wanted);
    *out = static_cast<T>(value);
    return absl::OkStatus();
  }
  if (!field.value.is_number_float()) return wrong_type(field, wanted);
  const double value = field.value.get<double>();
  const bool whole = std::abs(value) <= kExact && std::floor(value) == value;
  if (!whole || value < static_cast<double>(kLow) || value > static_cast<double>(kHigh)) {
    return wrong_type(field, wanted);
  }
  *out = static_cast<T>(value);
  return absl::OkStatus();
}

}  // namespace

Status wrong_type(const JsonField& field, std::string_view wanted) {
  std::string text = field.value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be {}", field.name, text, wanted));
}

Status read_json(const JsonField& field, bool* out) {
  if (!field.value.is_boolean()) return wrong_type(field, "true or false");
  *out = field.value.get<bool>();
  return absl::OkStatus();
}

Status read_json(const JsonField& field, int32_t* out) { return read_integer(field, out); }
Status read_json(const JsonField& field, int64_t* out) { return read_integer(field, out); }

Status read_json(const JsonField& field, float* out) {
  if (!field.value.is_number()) return wrong_type(field, "a number");
  const double value = field.value.get<double>();
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
    return wrong_type(field, "a finite number");
  }
  if (value != 0.0 && static_cast<float>(value) == 0.0f) {
    return wrong_type(field, "0 or a number that a float32 can be");
  }
  *out = static_cast<float>(value);
  return absl::OkStatus();
}

Status read_json(const JsonField& field, double* out) {
  if (!field.value.is_number()) return wrong_type(field, "a number");
  const double value = field.value.get<double>();
  if (!std::isfinite(value)) return wrong_type(field, "a finite number");
  *out = value;
  return absl::OkStatus();
}

Status read_json(const JsonField& field, std::string* out) {
  if (!field.value.is_string()) return wrong_type(field, "a string");
  *out = field.value.get_ref<const std::string&>();
  return absl::OkStatus();
}

}  // namespace rlgen
