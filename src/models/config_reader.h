#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rlgen::models {

// Bounds of a number, both included.
template <typename T>
struct Bounds {
  T low = std::numeric_limits<T>::lowest();
  T high = std::numeric_limits<T>::max();
};

// Typed access to a config.json that remembers which keys were asked for, so that finish() can
// refuse the ones that nobody understood. Keys are dotted paths ("rope_scaling.factor"). A key
// whose value is null counts as absent, as in Transformers; mentions() tells the two apart.
//
// The first error sticks: it is kept and returned by status() and finish(); a getter that fails
// returns a harmless value within its bounds, so a family may read everything first and check once.
// Errors are kInvalidArgument and name file, dotted key, value and what was expected.
//
// Borrows the document. One thread at a time.
class ConfigReader {
 public:
  // `root` is the parsed file; anything but an object is an error.
  ConfigReader(const nlohmann::json& root, std::string file);

  const std::string& file() const { return file_; }
  const Status& status() const { return status_; }
  // Keeps `error` unless there is one already.
  void fail(Status error);
  // fail() with kInvalidArgument and "file: key is VALUE, MESSAGE".
  void reject(const std::string& key, std::string_view message);

  // True when the key is there and not null. Counts as reading it.
  bool has(const std::string& key);
  // True when the file has the key at its top, be it with null. Counts as reading it.
  bool mentions(const std::string& key);

  int32_t integer(const std::string& key, Bounds<int32_t> bounds);  // required
  int32_t integer_or(const std::string& key, int32_t otherwise, Bounds<int32_t> bounds);
  double number(const std::string& key, Bounds<double> bounds);  // required, finite
  double number_or(const std::string& key, double otherwise, Bounds<double> bounds);
  bool flag_or(const std::string& key, bool otherwise);
  std::string text(const std::string& key);  // required
  std::string text_or(const std::string& key, std::string otherwise);
  // Lists; empty when the key is absent.
  std::vector<double> numbers(const std::string& key, Bounds<double> bounds);
  std::vector<std::string> texts(const std::string& key);

  // The value as it stands, null when absent; counts as reading it.
  const nlohmann::json* raw(const std::string& key);

  // status(), or an error for the first key (in alphabetic order, one level deep into objects whose
  // members were read) that nobody asked for: kUnimplemented with what the key is, unless it is
  // null or on the list of keys that change no arithmetic (config_keys.h). `family` is for the
  // text.
  Status finish(std::string_view family);

 private:
  const nlohmann::json* find(const std::string& key);
  void expected(const std::string& key, const nlohmann::json& value, std::string_view what);
  bool require(const std::string& key);
  Status check_key(const std::string& key, const nlohmann::json& value, std::string_view family);

  const nlohmann::json& root_;
  std::string file_;
  Status status_;
  absl::flat_hash_set<std::string> read_;
};

}  // namespace rlgen::models
