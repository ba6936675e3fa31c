#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/json_document.h"
#include "models/stop_ids.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

// Walks a tokenizer.json without building it: `depth_` counts open objects and lists, `keys_` holds
// the key in force at each depth.
class TokenSearch final : public nlohmann::json_sax<json> {
 public:
  explicit TokenSearch(std::string_view token) : token_(token) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool number_integer(int64_t value) override { return number(value); }
  bool number_unsigned(uint64_t value) override { return number(int64_t(value)); }

  bool string(std::string& value) override {
    if (in_added_token() && keys_[3] == "content") content_matches_ = value == token_;
    return true;
  }

  bool start_object(size_t) override {
    if (in_added_list()) {
      content_matches_ = false;
      candidate_.reset();
    }
    return open();
  }
  bool start_array(size_t) override { return open(); }

  bool end_object() override {
    if (in_added_token() && content_matches_ && candidate_) {
      found_ = candidate_;
      return false;
    }
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ < kKept) keys_[depth_] = name;
    if (depth_ == 1) keys_[2].clear();
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = fmt::format("not valid JSON at byte {}", position);
    return false;
  }

  std::optional<int64_t> found() const { return found_ ? found_ : in_vocabulary_; }
  const std::string& error() const { return error_; }

 private:
  static constexpr size_t kKept = 4;

  bool in_added_list() const { return depth_ == 2 && keys_[1] == "added_tokens"; }
  bool in_added_token() const { return depth_ == 3 && keys_[1] == "added_tokens"; }
  bool in_vocabulary() const { return depth_ == 3 && keys_[1] == "model" && keys_[2] == "vocab"; }

  bool open() {
    if (++depth_ <= size_t(kMaxJsonDepth)) return true;
    error_ = fmt::format("nested deeper than {} levels", kMaxJsonDepth);
    return false;
  }

  bool number(int64_t value) {
    if (in_added_token() && keys_[3] == "id") candidate_ = value;
    if (in_vocabulary() && keys_[3] == token_) in_vocabulary_ = value;
    return true;
  }

  std::string_view token_;
  size_t depth_ = 0;
  std::string keys_[kKept];
  bool content_matches_ = false;
  std::optional<int64_t> candidate_, found_, in_vocabulary_;
  std::string error_;
};

}  // namespace

StatusOr<std::optional<int64_t>> find_token_id(std::string_view tokenizer_json,
                                               std::string_view token, const std::string& file) {
  TokenSearch search(token);
  const bool whole = json::sax_parse(tokenizer_json.begin(), tokenizer_json.end(), &search);
  if (!whole && !search.error().empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file, search.error()));
  }
  return search.found();
}

}  // namespace rlgen::models
