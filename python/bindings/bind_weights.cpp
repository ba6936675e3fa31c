#include "bindings/bind_weights.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <tuple>

#include "base/thread_pool.h"
#include "bindings/errors.h"
#include "bindings/give_tensor.h"
#include "bindings/handover.h"
#include "bindings/stoppable_sink.h"
#include "bindings/update_words.h"
#include "bindings/watch.h"
#include "refit/memory_transport.h"
#include "tensor/dtype.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void abort_update(Engine& engine, const std::string& update_id) {
  wait_for(engine, {.work = [&engine, update_id] {
             return engine.generation().updates().abort(update_id);
           }});
}

// Begins as soon as no other update is decided upon, which may take as long as requests run. Given
// up before, it is dropped as it begins; if Ctrl-C comes just then, it is dropped here.
std::string begin_update(Engine& engine, const std::vector<Entry>& manifest,
                         const UpdateWords& words) {
  const auto begun = std::make_shared<Handover>();
  const auto id = std::make_shared<std::string>();
  const auto work = [&engine, begun, id, spec = to_spec(words, manifest)]() -> Status {
    auto opened = engine.generation().updates().open(spec, [begun] { return begun->take(); });
    if (opened.ok()) *id = *opened;
    return opened.status();
  };
  try {
    wait_for(engine, {.work = work,
                      .stop = [begun] { begun->give_up(); },
                      .needs_caller = [begun] { return begun->taken(); }});
  } catch (const nb::python_error&) {
    if (begun->taken()) abort_update(engine, *id);
    throw;
  }
  return *id;
}

void write(Engine& engine, const std::string& update_id, const std::string& name, size_t offset,
           std::span<const std::byte> bytes) {
  const nb::gil_scoped_release unlocked;
  check(engine.generation().updates().write(update_id, name, offset, bytes));
}

// Name, type, memory.
using Given = std::tuple<std::string, std::string, AnyTensor>;

void send(Engine& engine, const std::vector<Given>& given, const UpdateWords& words) {
  std::vector<refit::NamedTensor> tensors;
  for (const auto& [name, dtype, tensor] : given) {
    tensors.push_back({name, view_of(name, dtype, tensor)});
  }
  // Ctrl-C may leave it to itself, so it owns what it uses; the tensors' memory is Python's.
  struct Sending {
    std::vector<refit::NamedTensor> tensors;
    UpdateSpec spec;
    StoppableSink sink;
  };
  const std::shared_ptr<Sending> sending(new Sending{
      std::move(tensors), to_spec(words, {}), StoppableSink(&engine.generation().updates())});
  wait_for(engine, {.work =
                        [sending, threads = engine.info().num_threads] {
                          ThreadPool pool(threads);
                          return refit::send_tensors(sending->tensors, sending->spec, sending->sink,
                                                     &pool);
                        },
                    .stop = [sending] { sending->sink.stop(); },
                    .needs_caller = [sending] { return sending->sink.reads(); }});
}

// Tensors, bytes, tensors that changed, most bytes held beside the weights.
using Counts = std::tuple<int64_t, int64_t, int64_t, int64_t>;

std::optional<Counts> last_update(Engine& engine) {
  const auto report = [&] {
    const nb::gil_scoped_release unlocked;
    return engine.generation().updates().last_report();
  }();
  if (!report) return std::nullopt;
  return Counts{report->tensors, report->bytes, report->changed, report->staging_peak};
}

std::vector<Entry> checksums(Engine& engine) {
  const auto served = [&] {
    const nb::gil_scoped_release unlocked;
    return unwrap(engine.generation().served_checksums());
  }();
  std::vector<Entry> entries;
  for (const ManifestEntry& entry : served) {
    const auto dims = entry.shape.dims();
    entries.emplace_back(entry.name, std::string(torch_name(entry.dtype)),
                         std::vector<int64_t>(dims.begin(), dims.end()), entry.digest);
  }
  return entries;
}

nb::ndarray<nb::array_api> read_weight(Engine& engine, const std::string& name) {
  auto tensor = [&] {
    const nb::gil_scoped_release unlocked;
    return std::make_unique<TensorBytes>(unwrap(engine.generation().read_tensor(name)));
  }();
  void* const data = tensor->bytes.data();
  const ManifestEntry entry = tensor->entry;
  return give_tensor(std::move(tensor), data, entry.shape, entry.dtype);
}

void bind_update(nb::class_<Engine>& engine) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  engine.def("begin_update", &begin_update, "manifest"_a, "options"_a)
      .def("send_tensors", &send, "tensors"_a.noconvert(), "options"_a)
      .def(
          "write_tensor",
          [](Engine& self, const std::string& update_id, const std::string& name, size_t offset,
             const AnyTensor& tensor) {
            write(self, update_id, name, offset, bytes_of(name, tensor));
          },
          "update_id"_a, "name"_a, "offset"_a, "tensor"_a.noconvert())
      .def(
          "write_bytes",
          [](Engine& self, const std::string& update_id, const std::string& name, size_t offset,
             const nb::bytes& bytes) {
            write(self, update_id, name, offset,
                  {static_cast<const std::byte*>(bytes.data()), bytes.size()});
          },
          "update_id"_a, "name"_a, "offset"_a, "data"_a)
      .def(
          "prepare_update",
          [](Engine& self, const std::string& id) {
            wait_for(self,
                     {.work = [&self, id] { return self.generation().updates().prepare(id); }});
          },
          "update_id"_a)
      .def(
          "commit_update",
          [](Engine& self, const std::string& id) {
            wait_for(self,
                     {.work = [&self, id] { return self.generation().updates().commit(id); }});
          },
          "update_id"_a)
      .def("abort_update", &abort_update, "update_id"_a)
      .def(
          "weight_version", [](Engine& self) { return self.generation().updates().version(); },
          unlocked)
      .def(
          "set_weight_version",
          [](Engine& self, int64_t version) {
            wait_for(self, {.work = [&self, version] {
                       return self.generation().set_rollout_weight_version(version);
                     }});
          },
          "version"_a)
      .def("last_update", &last_update)
      .def("weight_checksums", &checksums)
      .def("read_weight", &read_weight, "name"_a,
           nb::sig("def read_weight(self, name: str) -> typing.Any"));
}

void bind_options(nb::module_& module) {
  nb::class_<UpdateWords>(module, "UpdateOptions", "What may be said of an update.")
      .def(
          "__init__",
          [](UpdateWords* self, std::string update_id, std::optional<int64_t> version,
             std::string kv_policy, std::optional<int64_t> base, bool allow_rollback, bool cast,
             bool check_finite, std::optional<Seconds> timeout_s) {
            new (self) UpdateWords{std::move(update_id), version, std::move(kv_policy), base,
                                   allow_rollback,       cast,    check_finite,         timeout_s};
          },
          "update_id"_a, "version"_a = nb::none(), "kv_policy"_a = "recompute",
          "base"_a = nb::none(), "allow_rollback"_a = false, "cast"_a = false,
          "check_finite"_a = false, "timeout_s"_a = nb::none());
}

}  // namespace

void bind_weights(nb::module_& module, nb::class_<Engine>& engine) {
  bind_options(module);
  bind_update(engine);
}

}  // namespace rlgen::python
