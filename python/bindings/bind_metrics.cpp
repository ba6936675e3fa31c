#include "bindings/bind_metrics.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/engine.h"
#include "generation/metrics_sampler.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Metrics whose warnings come out with the answer. Thread-safe; the engine outlives it.
class EngineMetrics {
 public:
  using Warnings = std::vector<std::string>;

  explicit EngineMetrics(Engine& engine)
      : sampler_([&engine] { return engine.generation().shard_metrics(); },
                 [this](LogLevel, std::string_view message) { said_.emplace_back(message); }) {}

  generation::MetricsSampler& sampler() { return sampler_; }

  Warnings snapshot() {
    const std::lock_guard lock(mutex_);
    sampler_.snapshot();
    return std::exchange(said_, {});
  }
  std::pair<StepMetrics, Warnings> step() {
    const std::lock_guard lock(mutex_);
    StepMetrics counted = sampler_.step();
    return {std::move(counted), std::exchange(said_, {})};
  }

 private:
  std::mutex mutex_;
  Warnings said_;  // guarded by mutex_; only windows warn
  generation::MetricsSampler sampler_;
};

}  // namespace

void bind_metrics(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<EngineMetrics>(module, "EngineMetrics",
                            "Samples of an engine's shards, taken by a thread of its own.")
      .def(nb::init<Engine&>(), "engine"_a, nb::keep_alive<1, 2>())
      .def(
          "get", [](EngineMetrics& self) { return self.sampler().get(); }, unlocked)
      .def(
          "drain", [](EngineMetrics& self) { return self.sampler().drain(); }, unlocked)
      .def(
          "clear", [](EngineMetrics& self) { self.sampler().clear(); }, unlocked)
      .def("snapshot", &EngineMetrics::snapshot, "Begins a window; what is to be warned of.",
           unlocked)
      .def("step", &EngineMetrics::step, "Ends it: counts, and what is to be warned of.", unlocked)
      .def(
          "stop", [](EngineMetrics& self) { self.sampler().stop(); }, unlocked);
}

}  // namespace rlgen::python
