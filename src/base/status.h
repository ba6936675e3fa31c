#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>

// Errors of the library are absl::Status values. A caller tells the categories apart by code:
//   bad input        kInvalidArgument     unsupported      kUnimplemented
//   shard lost       kUnavailable         deadline         kDeadlineExceeded
//   out of capacity  kResourceExhausted   corrupt data     kDataLoss
//   not found        kNotFound            wrong state      kFailedPrecondition
//   cancelled        kCancelled           our own mistake  kInternal
// A message names the thing and the value and says what to do.
namespace rlgen {

using absl::Status;
using absl::StatusOr;

// Debian's Abseil carries a string_view of its own; these two convert without a copy.
inline std::string_view to_std(absl::string_view text) { return {text.data(), text.size()}; }
inline absl::string_view to_absl(std::string_view text) { return {text.data(), text.size()}; }

// The message of `status` as a string of the caller's.
inline std::string message_of(const Status& status) { return std::string(status.message()); }

// `status` with another message, or with "context: " before its own. What goes with it beside the
// message (the type of error, a field, a code) stays; OK stays OK.
Status with_message(const Status& status, std::string_view message);
Status annotate(const Status& status, std::string_view context);

}  // namespace rlgen

#define RLGEN_CONCAT_INNER(a, b) a##b
#define RLGEN_CONCAT(a, b) RLGEN_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr` is an error.
#define RLGEN_RETURN_IF_ERROR(expr)              \
  do {                                           \
    ::absl::Status rlgen_status = (expr);        \
    if (!rlgen_status.ok()) return rlgen_status; \
  } while (false)

// RLGEN_ASSIGN_OR_RETURN(auto x, f()): x from f's value, or returns f's error.
#define RLGEN_ASSIGN_OR_RETURN(lhs, expr) \
  RLGEN_ASSIGN_OR_RETURN_IMPL(RLGEN_CONCAT(rlgen_or_, __LINE__), lhs, expr)
#define RLGEN_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = std::move(result).value()
