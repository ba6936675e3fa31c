#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Binds what may be said of an update, and adds updates and reading back to the class of Engine.
void bind_weights(nanobind::module_& module, nanobind::class_<Engine>& engine);

}  // namespace rlgen::python
