#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Binds the trainer's configuration and the layout of batches, and adds to the class of Engine what
// they need.
void bind_contract(nanobind::module_& module, nanobind::class_<Engine>& engine);

}  // namespace rlgen::python
