#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Binds Engine, Request and Mailbox. Whatever may take long runs without the interpreter's lock.
// Returns the class of Engine, for what is bound elsewhere.
nanobind::class_<Engine> bind_engine(nanobind::module_& module);

}  // namespace rlgen::python
