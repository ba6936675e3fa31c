#include "bindings/watch.h"

#include <utility>

#include "bindings/errors.h"

namespace rlgen::python {

namespace nb = nanobind;

bool Watch::interrupted() {
  const auto now = std::chrono::steady_clock::now();
  if (raised_ || now - last_look_ < std::chrono::milliseconds(50)) return raised_.has_value();
  last_look_ = now;
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) raised_.emplace();
  return raised_.has_value();
}

void Watch::report(const generation::BatchProgress& progress) {
  if (raised_ || progress_.is_none()) return;
  const nb::gil_scoped_acquire lock;
  try {
    progress_(progress.rollouts, progress.tokens, progress.in_flight);
  } catch (nb::python_error& error) {
    raised_.emplace(std::move(error));
  }
}

void Watch::raise_again() {
  if (!raised_) return;
  nb::python_error error = std::move(*raised_);
  raised_.reset();
  throw error;
}

void wait_for(Engine& engine, PatientCall call) {
  Watch watch;
  const Status done = [&] {
    const nb::gil_scoped_release unlocked;
    return engine.waits().run(std::move(call), [&watch] { return watch.interrupted(); });
  }();
  watch.raise_again();
  check(done);
}

}  // namespace rlgen::python
