#include "models/json_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

// Builds the document from the parser's events and stops at the first thing it does not accept.
class StrictBuilder final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(int64_t value) override { return place(value); }
  bool number_unsigned(uint64_t value) override { return place(value); }
  bool number_float(double value, const std::string&) override { return place(value); }
  bool string(std::string& value) override { return place(std::move(value)); }
  bool binary(json::binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (open_.back()->contains(name)) return fail(fmt::format("key \"{}\" appears twice", name));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    const size_t detail = text.find("; ");
    return fail(fmt::format("not valid JSON at byte {}{}", position,
                            detail == std::string::npos ? "" : ": " + text.substr(detail + 2)));
  }

  const std::string& error() const { return error_; }
  json take() { return std::move(root_); }

 private:
  bool fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  json* put(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool place(json value) {
    put(std::move(value));
    return true;
  }

  bool open(json value) {
    if (open_.size() >= size_t(kMaxJsonDepth)) {
      return fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  std::string key_;
  std::string error_;
};

}  // namespace

StatusOr<json> parse_json(std::string_view text, const std::string& name, absl::StatusCode code) {
  StrictBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return Status(code, fmt::format("{}: {}", name, builder.error()));
  }
  return builder.take();
}

StatusOr<json> read_json_file(const std::string& path) {
  RLGEN_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  return parse_json(text, path);
}

std::string show_json(const json& value) {
  constexpr size_t kShown = 60;
  if (value.is_structured() && value.size() > kShown) {
    return fmt::format("{} of {} elements", value.type_name(), value.size());
  }
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace rlgen::models
