#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Binds the sender of a trainer in another process, and adds the receiver to the class of Engine.
void bind_ipc(nanobind::module_& module, nanobind::class_<Engine>& engine);

}  // namespace rlgen::python
