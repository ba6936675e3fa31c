#include "contract/spec_error.h"

#include <absl/strings/cord.h>

#include <utility>

namespace rlgen {
namespace {

constexpr char kPayload[] = "rlgen/spec_field";

}  // namespace

Status spec_error(std::string_view field, Status error) {
  if (!error.ok()) error.SetPayload(kPayload, absl::Cord(to_absl(field)));
  return error;
}

std::string spec_field_of(const Status& status) {
  const auto field = status.GetPayload(kPayload);
  return field ? std::string(*field) : std::string();
}

}  // namespace rlgen
