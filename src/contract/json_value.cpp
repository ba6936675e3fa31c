#include "contract/json_value.h"

#include <cmath>
#include <limits>

#include "base/float_mode.h"

namespace rlgen {
std::optional<int64_t> whole_number(const nlohmann::json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::abs(number) <= kExact) || std::floor(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

Status wrong_type(const JsonField& field, std::string_view wanted) {
  std::string text = field.value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; it must be {}", field.name, text, wanted));
}

Status read_json(const JsonField& field, bool* out) {
  if (!field.value.is_boolean()) return wrong_type(field, "true or false");
  *out = field.value.get<bool>();
  return absl::OkStatus();
}

Status read_json(const JsonField& field, int32_t* out) {
  return read_whole(field, WholeRange{std::numeric_limits<int32_t>::min(), kMostInt32}, out);
}

Status read_json(const JsonField& field, int64_t* out) {
  constexpr auto kLowest = std::numeric_limits<int64_t>::min();
  return read_whole(field, WholeRange{kLowest, std::numeric_limits<int64_t>::max()}, out);
}

Status read_json(const JsonField& field, float* out) {
  if (!field.value.is_number()) return wrong_type(field, "a number");
  const double value = field.value.get<double>();
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
    return wrong_type(field, "a finite number");
  }
  const float nearest = nearest_float(value);
  if (value != 0.0 && nearest == 0.0f) {
    return wrong_type(field, "0 or a number that a float32 can be");
  }
  *out = nearest;
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
