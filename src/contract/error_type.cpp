#include "contract/error_type.h"

#include <absl/strings/cord.h>

#include <array>
#include <cassert>
#include <utility>

namespace rlgen {
namespace {

constexpr char kErrorTypePayload[] = "rlgen/error_type";

struct ErrorTypeName {
  std::string_view name;
  ErrorKind kind;
};

// The first six in the order of ErrorKind.
constexpr std::array<ErrorTypeName, 12> kErrorTypes = {
    {{"ValueError", ErrorKind::kValueError},
     {"KeyError", ErrorKind::kKeyError},
     {"AssertionError", ErrorKind::kAssertionError},
     {"NotImplementedError", ErrorKind::kNotImplementedError},
     {"TimeoutError", ErrorKind::kTimeoutError},
     {"RuntimeError", ErrorKind::kRuntimeError},
     {"GenerationUnavailable", ErrorKind::kRuntimeError},
     {"NoHealthyShards", ErrorKind::kRuntimeError},
     {"GenerationFleetExhausted", ErrorKind::kRuntimeError},
     {"NoSurvivingShards", ErrorKind::kRuntimeError},
     {"RefitAborted", ErrorKind::kRuntimeError},
     {"IPCWeightManifestError", ErrorKind::kValueError}}};

const ErrorTypeName* find_error_type(std::string_view name) {
  for (const ErrorTypeName& type : kErrorTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

ErrorKind kind_of_code(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return ErrorKind::kValueError;
    case absl::StatusCode::kUnimplemented:
      return ErrorKind::kNotImplementedError;
    case absl::StatusCode::kDeadlineExceeded:
      return ErrorKind::kTimeoutError;
    default:
      return ErrorKind::kRuntimeError;
  }
}

}  // namespace

std::string_view error_kind_name(ErrorKind kind) {
  return kErrorTypes[static_cast<size_t>(kind)].name;
}

Status with_error_type(Status status, std::string_view type) {
  assert(find_error_type(type) != nullptr);
  if (!status.ok()) status.SetPayload(kErrorTypePayload, absl::Cord(to_absl(type)));
  return status;
}

std::string error_type(const Status& status) {
  if (status.ok()) return {};
  if (const auto name = status.GetPayload(kErrorTypePayload)) return std::string(*name);
  return std::string(error_kind_name(error_kind(status)));
}

ErrorKind error_kind(const Status& status) {
  if (const auto name = status.GetPayload(kErrorTypePayload)) {
    if (const ErrorTypeName* type = find_error_type(std::string(*name))) return type->kind;
  }
  return kind_of_code(status.code());
}

}  // namespace rlgen
