#pragma once

#include <nanobind/nanobind.h>

namespace rlgen::python {

// Binds Rollout and Piece.
void bind_rollout(nanobind::module_& module);

}  // namespace rlgen::python
