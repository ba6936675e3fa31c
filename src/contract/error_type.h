#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen {

// The six built-in exceptions of Python that the trainer's side tells apart.
enum class ErrorKind {
  kValueError,
  kKeyError,
  kAssertionError,
  kNotImplementedError,
  kTimeoutError,
  kRuntimeError
};

// "ValueError", "KeyError", ...
std::string_view error_kind_name(ErrorKind kind);

// `status` with the name of the exception that it becomes: one of the six, or a typed one below
// them: GenerationUnavailable, NoHealthyShards, GenerationFleetExhausted, NoSurvivingShards,
// RefitAborted (RuntimeError), IPCWeightManifestError (ValueError). Other names are our mistake
// (asserted). OK stays OK.
Status with_error_type(Status status, std::string_view type);

// The name given by with_error_type; without one, that of error_kind(status). "" for OK.
std::string error_type(const Status& status);

// The built-in exception that `status` becomes. Without a name, by its code: kInvalidArgument,
// kOutOfRange, kNotFound and kAlreadyExists are a ValueError, kUnimplemented a
// NotImplementedError, kDeadlineExceeded a TimeoutError, the rest a RuntimeError.
ErrorKind error_kind(const Status& status);

}  // namespace rlgen
