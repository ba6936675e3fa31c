#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::models {

// Parses a whole JSON text from outside, strictly: one value, no repeated keys, at most
// kMaxJsonDepth levels of nesting. `code` is the code of every error (kDataLoss for the header of a
// weights file, kInvalidArgument for a configuration); messages begin with `name` and give the
// byte where the text is wrong.
inline constexpr int kMaxJsonDepth = 64;
StatusOr<nlohmann::json> parse_json(std::string_view text, const std::string& name,
                                    absl::StatusCode code = absl::StatusCode::kInvalidArgument);

// Reads and parses a file; errors of read_file and parse_json.
StatusOr<nlohmann::json> read_json_file(const std::string& path);

// A value as it is shown in messages: its JSON text, cut after about 60 bytes.
std::string show_json(const nlohmann::json& value);

}  // namespace rlgen::models
