#pragma once

#include <nanobind/nanobind.h>

#include "bindings/engine.h"

namespace rlgen::python {

// Adds to the class of Engine an update from a checkpoint on disk, and binds the look into a folder
// of versions.
void bind_disk(nanobind::module_& module, nanobind::class_<Engine>& engine);

}  // namespace rlgen::python
