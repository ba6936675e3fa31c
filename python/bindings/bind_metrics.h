#pragma once

#include <nanobind/nanobind.h>

namespace rlgen::python {

// The samples and counters of an engine, as a trainer's logger asks for them.
void bind_metrics(nanobind::module_& module);

}  // namespace rlgen::python
