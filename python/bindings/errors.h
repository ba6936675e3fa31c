#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <utility>

#include "base/status.h"

namespace rlgen::python {

// An error on its way into Python, where rlgen.errors gives it its class.
class StatusError final : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)), text_(message_of(status_)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

// Throws StatusError unless `status` is OK.
inline void check(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

// The value, or a throw.
template <typename T>
T unwrap(StatusOr<T> result) {
  check(result.status());
  return *std::move(result);
}

// The exception object for `status`; None for OK. Needs the interpreter's lock.
nanobind::object to_exception(const Status& status);

// Turns StatusError into the exceptions of rlgen.errors.
void register_errors();

}  // namespace rlgen::python
