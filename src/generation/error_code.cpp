#include "generation/error_code.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <cctype>

namespace rlgen::generation {
namespace {

constexpr char kPayload[] = "rlgen/error_code";

}  // namespace

std::string error_code(const Status& status) {
  if (const auto payload = status.GetPayload(kPayload)) return std::string(*payload);
  std::string name = absl::StatusCodeToString(status.code());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

Status with_error_code(Status status, const std::string& code) {
  if (!status.ok()) status.SetPayload(kPayload, absl::Cord(code));
  return status;
}

Status context_length_exceeded(int64_t prompt_tokens, int64_t max_model_len) {
  return with_error_code(
      absl::InvalidArgumentError(fmt::format(
          "the prompt has {} tokens; max_model_len is {}: shorten it or raise --max-model-len",
          prompt_tokens, max_model_len)),
      "context_length_exceeded");
}

}  // namespace rlgen::generation
