#include "bindings/bind_disk.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "bindings/errors.h"
#include "bindings/stoppable_sink.h"
#include "bindings/update_words.h"
#include "bindings/watch.h"
#include "models/safetensors.h"
#include "refit/checkpoint_transport.h"
#include "refit/version_folder.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void send_checkpoint(Engine& engine, const std::string& folder, const UpdateWords& words) {
  // Ctrl-C may leave it to itself, so it owns what it uses.
  struct Sending {
    std::string folder;
    UpdateSpec spec;
    StoppableSink sink;
  };
  const std::shared_ptr<Sending> sending(
      new Sending{folder, to_spec(words, {}), StoppableSink(&engine.generation().updates())});
  const auto work = [sending, threads = engine.info().num_threads]() -> Status {
    RLGEN_ASSIGN_OR_RETURN(const auto tensors, models::SafetensorsFolder::open(sending->folder));
    ThreadPool pool(threads);
    return annotate(refit::send_checkpoint(tensors, sending->spec, sending->sink, &pool),
                    sending->folder);
  };
  wait_for(engine, {.work = work, .stop = [sending] { sending->sink.stop(); }});
}

std::pair<int64_t, std::string> wait_for_version(const std::string& root, int64_t at_least,
                                                 Seconds timeout_s) {
  const auto timeout = to_milliseconds(timeout_s);
  Watch watch;
  auto found = [&] {
    const nb::gil_scoped_release unlocked;
    return refit::wait_for_version(root, at_least, timeout, *make_system_clock(),
                                   [&watch] { return watch.interrupted(); });
  }();
  watch.raise_again();
  refit::StoredVersion version = unwrap(std::move(found));
  return {version.version, std::move(version.folder)};
}

}  // namespace

void bind_disk(nb::module_& module, nb::class_<Engine>& engine) {
  engine.def("send_checkpoint", &send_checkpoint, "folder"_a, "options"_a);
  module.def("wait_for_version", &wait_for_version, "root"_a, "at_least"_a, "timeout_s"_a);
}

}  // namespace rlgen::python
