#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/json_value.h"

namespace rlgen {

// Reads a JSON object key by key and remembers the first thing that is wrong. Every key that is
// read counts as known; finish() refuses the others. Used by one thread, while `value` lives.
class JsonObject {
 public:
  // `path` is the dotted name of `value` in messages.
  JsonObject(const nlohmann::json& value, std::string path);

  // "<path>.<key>".
  std::string name_of(std::string_view key) const;

  // The value of `key`, null pointer where it is absent. The key counts as known.
  const nlohmann::json* find(std::string_view key);

  // The key has to be there; its value goes to `out`.
  template <typename T>
  void need(std::string_view key, T* out) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) {
      missing_.emplace_back(key);
    } else {
      note(read_json(JsonField{name_of(key), *value}, out));
    }
  }

  // Where the key is there, its value goes to `out`; else `out` keeps its own. Says whether it was.
  template <typename T>
  bool take(std::string_view key, T* out) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return false;
    note(read_json(JsonField{name_of(key), *value}, out));
    return true;
  }

  // Notes an error of the caller's; OK is none.
  void note(const Status& status);

  // The first error of what was read so far; unknown and missing keys are finish()'s.
  const Status& status() const { return status_; }

  // The first error: the value is no object, a wrong value, an unknown key (with a "did you
  // mean"), missing keys (error type AssertionError; all of them and the keys that are there).
  Status finish() const;

 private:
  Status unknown_keys() const;

  const nlohmann::json& value_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> missing_;
  Status status_;
};

}  // namespace rlgen
