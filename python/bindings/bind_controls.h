#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Adds pausing and standing down to the class of Engine.
void bind_controls(nanobind::class_<Engine>& engine);

}  // namespace rlgen::python
