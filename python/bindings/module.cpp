#include <nanobind/nanobind.h>

#include "bindings/bind_contract.h"
#include "bindings/bind_controls.h"
#include "bindings/bind_disk.h"
#include "bindings/bind_engine.h"
#include "bindings/bind_ipc.h"
#include "bindings/bind_metrics.h"
#include "bindings/bind_rollout.h"
#include "bindings/bind_weights.h"
#include "bindings/errors.h"

NB_MODULE(_native, module) {
  module.doc() = "The engine of rlgen. Use rlgen.LLM and rlgen.AsyncLLM instead.";
  rlgen::python::register_errors();
  rlgen::python::bind_rollout(module);
  auto engine = rlgen::python::bind_engine(module);
  rlgen::python::bind_metrics(module);
  rlgen::python::bind_controls(engine);
  rlgen::python::bind_weights(module, engine);
  rlgen::python::bind_disk(module, engine);
  rlgen::python::bind_ipc(module, engine);
  rlgen::python::bind_contract(module, engine);
}
