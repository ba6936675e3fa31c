#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "bindings/engine.h"
#include "generation/batch_run.h"

namespace rlgen::python {

// Looks for Ctrl-C, and reports progress, while a call works whose thread has given the
// interpreter's lock away. What Python raises meanwhile ends the call and is raised after it.
class Watch {
 public:
  // `progress` is called with counts of rollouts, tokens and sequences in flight; None: nobody is.
  explicit Watch(nanobind::object progress = nanobind::none()) : progress_(std::move(progress)) {}

  // Without the interpreter's lock. Looks at most every 50 ms; only the main thread sees signals.
  bool interrupted();
  void report(const generation::BatchProgress& progress);

  // With the interpreter's lock.
  void raise_again();

 private:
  nanobind::object progress_;
  std::chrono::steady_clock::time_point last_look_;
  std::optional<nanobind::python_error> raised_;
};

// Does what may wait long on a thread of the engine's, without the interpreter's lock, which the
// caller holds. Ctrl-C ends the wait and is raised; the work is left to itself then. Throws
// StatusError for the work's error.
void wait_for(Engine& engine, PatientCall call);

}  // namespace rlgen::python
