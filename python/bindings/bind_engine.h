#pragma once

#include <nanobind/nanobind.h>

namespace rlgen::python {

// Binds Engine, Request and Mailbox. Whatever may take long runs without the interpreter's lock.
void bind_engine(nanobind::module_& module);

}  // namespace rlgen::python
