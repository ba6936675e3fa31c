#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "contract/limits.h"

namespace rlgen {

// A value out of a JSON document and the name that messages give it.
struct JsonField {
  std::string name;
  const nlohmann::json& value;
};

// kInvalidArgument: "<name> is <value>; it must be <wanted>". A long value is cut.
Status wrong_type(const JsonField& field, std::string_view wanted);

// A whole number within `range` (also written as 3.0), whose rule() the error gives. In the second
// null is "not set".
template <typename T>
Status read_whole(const JsonField& field, const WholeRange& range, T* out);
template <typename T>
Status read_whole(const JsonField& field, const WholeRange& range, std::optional<T>* out);

// The value as the type of `out`, which stays as it was on an error. Whole numbers may be written
// as 3.0; true and false are no numbers. A number is finite, and not so small that it becomes 0 in
// the type of `out`.
Status read_json(const JsonField& field, bool* out);
Status read_json(const JsonField& field, int32_t* out);
Status read_json(const JsonField& field, int64_t* out);
Status read_json(const JsonField& field, float* out);
Status read_json(const JsonField& field, double* out);
Status read_json(const JsonField& field, std::string* out);
// null is "not set".
template <typename T>
Status read_json(const JsonField& field, std::optional<T>* out);
template <typename T>
Status read_json(const JsonField& field, std::vector<T>* out);

// Implementation details follow.

// The number; nothing for what is no whole number that fits.
std::optional<int64_t> whole_number(const nlohmann::json& value);

template <typename T>
Status read_whole(const JsonField& field, const WholeRange& range, T* out) {
  const std::optional<int64_t> value = whole_number(field.value);
  if (!value || !range.contains(*value)) return wrong_type(field, range.rule());
  *out = static_cast<T>(*value);
  return absl::OkStatus();
}

template <typename T>
Status read_whole(const JsonField& field, const WholeRange& range, std::optional<T>* out) {
  if (!field.value.is_null()) return read_whole(field, range, &out->emplace());
  out->reset();
  return absl::OkStatus();
}

template <typename T>
Status read_json(const JsonField& field, std::optional<T>* out) {
  if (field.value.is_null()) {
    out->reset();
    return absl::OkStatus();
  }
  T value{};
  RLGEN_RETURN_IF_ERROR(read_json(field, &value));
  *out = std::move(value);
  return absl::OkStatus();
}

template <typename T>
Status read_json(const JsonField& field, std::vector<T>* out) {
  if (!field.value.is_array()) return wrong_type(field, "a list");
  std::vector<T> values;
  values.reserve(field.value.size());
  for (size_t i = 0; i < field.value.size(); ++i) {
    T value{};
    const JsonField element{fmt::format("{}[{}]", field.name, i), field.value[i]};
    RLGEN_RETURN_IF_ERROR(read_json(element, &value));
    values.push_back(std::move(value));
  }
  *out = std::move(values);
  return absl::OkStatus();
}

}  // namespace rlgen
