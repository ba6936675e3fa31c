#include "bindings/bind_controls.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/errors.h"
#include "bindings/update_words.h"
#include "bindings/watch.h"
#include "contract/pause_mode.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Both wait for the step that is under way, which a large prefill makes long.
void pause(Engine& engine, const std::string& mode_name, bool clear_cache,
           std::optional<Seconds> timeout_s) {
  const PauseMode mode = unwrap(parse_pause_mode(mode_name));
  generation::PauseOptions options{.clear_cache = clear_cache};
  if (timeout_s) options.timeout = to_milliseconds(*timeout_s);
  wait_for(engine,
           {.work = [&engine, mode, options] { return engine.generation().pause(mode, options); }});
}

void resume(Engine& engine, std::optional<Seconds> timeout_s) {
  const auto timeout = timeout_s ? to_milliseconds(*timeout_s) : generation::kPauseTimeout;
  wait_for(engine, {.work = [&engine, timeout] { return engine.generation().resume(timeout); }});
}

bool invalidate_kv_cache(Engine& engine) {
  const auto cleared = std::make_shared<bool>(false);
  wait_for(engine, {.work = [&engine, cleared]() -> Status {
             *cleared = engine.generation().invalidate_kv_cache();
             return absl::OkStatus();
           }});
  return *cleared;
}

void sleep(Engine& engine, int level, bool weights, bool kv_cache) {
  if (level != 1 && level != 2) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("level is {}; it must be 1 (keep the weights) or 2 (drop them)", level)));
  }
  wait_for(engine, {.work = [&engine, level, weights, kv_cache] {
             return engine.generation().sleep(level == 1 ? SleepLevel::kKeep : SleepLevel::kDrop,
                                              {weights, kv_cache});
           }});
}

void wake(Engine& engine, bool weights, bool kv_cache) {
  wait_for(engine, {.work = [&engine, weights, kv_cache] {
             return engine.generation().wake({weights, kv_cache});
           }});
}

void bind_pause(nb::class_<Engine>& engine) {
  engine.def("pause", &pause, "mode"_a, "clear_cache"_a = false, "timeout_s"_a = nb::none())
      .def("resume", &resume, "timeout_s"_a = nb::none())
      .def(
          "paused", [](Engine& self) { return self.generation().paused(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("invalidate_kv_cache", &invalidate_kv_cache);
}

void bind_sleep(nb::class_<Engine>& engine) {
  engine.def("sleep", &sleep, "level"_a = 1, "weights"_a = true, "kv_cache"_a = true)
      .def("wake", &wake, "weights"_a = true, "kv_cache"_a = true)
      .def(
          "asleep",
          [](Engine& self) {
            const MemoryTags tags = self.generation().asleep();
            return std::pair<bool, bool>(tags.weights, tags.kv_cache);
          },
          "Whether the weights sleep, and whether the KV cache does.",
          nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_controls(nb::class_<Engine>& engine) {
  bind_pause(engine);
  bind_sleep(engine);
}

}  // namespace rlgen::python
