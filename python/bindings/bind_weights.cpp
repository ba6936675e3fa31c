#include "bindings/bind_weights.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>

#include "base/thread_pool.h"
#include "bindings/errors.h"
#include "bindings/give_tensor.h"
#include "bindings/stoppable_sink.h"
#include "bindings/watch.h"
#include "contract/pause_mode.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"
#include "refit/memory_transport.h"
#include "tensor/dtype.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using std::chrono::milliseconds;

// Name, type, shape, digest.
using Entry = std::tuple<std::string, std::string, std::vector<int64_t>, std::string>;
using AnyTensor = nb::ndarray<nb::ro>;

constexpr double kLongestTimeout = 1e9;  // seconds

milliseconds to_milliseconds(double seconds) {
  if (!(seconds > 0.0 && std::isfinite(seconds))) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("timeout_s is {}; it must be None or a positive finite number", seconds)));
  }
  return milliseconds(static_cast<int64_t>(std::ceil(std::min(seconds, kLongestTimeout) * 1000.0)));
}

KvPolicy to_policy(const std::string& name) {
  if (name == "keep") return KvPolicy::kKeep;
  if (name == "recompute") return KvPolicy::kRecompute;
  if (name == "abort") return KvPolicy::kAbort;
  if (name == "wait") return KvPolicy::kWait;
  throw StatusError(absl::InvalidArgumentError(
      fmt::format("kv_policy is \"{}\"; it must be one of recompute, keep, abort, wait", name)));
}

ManifestEntry to_entry(const Entry& words) {
  const auto& [name, dtype_name, sizes, digest] = words;
  ManifestEntry entry{.name = name};
  const auto dtype = parse_torch_dtype(dtype_name);
  if (!dtype) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("{} has the type {}, which rlgen does not know", name, dtype_name)));
  }
  entry.dtype = *dtype;
  auto shape = Shape::make(sizes);
  if (!shape.ok()) throw StatusError(annotate(shape.status(), name));
  entry.shape = *shape;
  entry.digest = digest;
  return entry;
}

// What may be said of an update beside its tensors.
struct UpdateWords {
  std::string update_id;  // empty only where the update is opened without one
  std::optional<int64_t> version;
  std::string kv_policy;
  std::optional<int64_t> base;
  bool allow_rollback = false;
  bool cast = false;
  bool check_finite = false;
  std::optional<double> timeout_s;
};

UpdateSpec to_spec(const UpdateWords& words, const std::vector<Entry>& manifest) {
  UpdateSpec spec{.update_id = words.update_id};
  spec.version = words.version;
  spec.base = words.base;
  spec.allow_rollback = words.allow_rollback;
  spec.kv_policy = to_policy(words.kv_policy);
  spec.cast = words.cast;
  spec.check_finite = words.check_finite;
  if (words.timeout_s) spec.deadline = to_milliseconds(*words.timeout_s);
  for (const Entry& entry : manifest) spec.manifest.push_back(to_entry(entry));
  return spec;
}

std::string begin_update(Engine& engine, const std::vector<Entry>& manifest,
                         const UpdateWords& words) {
  UpdateSpec spec = to_spec(words, manifest);
  const nb::gil_scoped_release unlocked;
  return unwrap(engine.generation().updates().open(std::move(spec)));
}

// The memory of a tensor, which must be one dense block of this machine's.
std::span<const std::byte> bytes_of(const std::string& name, const AnyTensor& tensor) {
  if (tensor.device_type() != nb::device::cpu::value) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("{} is on another device (DLPack type {}); move it to the CPU", name,
                    tensor.device_type())));
  }
  int64_t dense = 1;
  for (size_t i = tensor.ndim(); i-- > 0;) {
    if (tensor.shape(i) != 1 && tensor.stride(i) != dense && tensor.size() > 0) {
      throw StatusError(absl::InvalidArgumentError(
          fmt::format("{} is not contiguous; write tensor.contiguous()", name)));
    }
    dense *= static_cast<int64_t>(tensor.shape(i));
  }
  return {static_cast<const std::byte*>(tensor.data()), tensor.nbytes()};
}

void write(Engine& engine, const std::string& update_id, const std::string& name, size_t offset,
           std::span<const std::byte> bytes) {
  const nb::gil_scoped_release unlocked;
  check(engine.generation().updates().write(update_id, name, offset, bytes));
}

// Name, type (the memory of a bfloat16 of numpy does not say it), memory.
using Given = std::tuple<std::string, std::string, AnyTensor>;

void send(Engine& engine, const std::vector<Given>& given, const UpdateWords& words) {
  std::vector<refit::NamedTensor> tensors;
  for (const auto& [name, dtype, tensor] : given) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < tensor.ndim(); ++i) {
      sizes.push_back(static_cast<int64_t>(tensor.shape(i)));
    }
    const ManifestEntry entry = to_entry({name, dtype, sizes, ""});
    tensors.push_back({name, dense_view(bytes_of(name, tensor).data(), entry.dtype, entry.shape)});
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

using Report = std::tuple<int64_t, int64_t, int64_t>;

Report receive_ipc(Engine& engine, const std::string& endpoint, const std::vector<Entry>& manifest,
                   const UpdateWords& words, double message_timeout_s) {
  const UpdateSpec spec = to_spec(words, manifest);
  Watch watch;
  refit::IpcReceiveOptions options{.timeout = to_milliseconds(message_timeout_s)};
  options.interrupted = [&watch] { return watch.interrupted(); };
  const auto report = [&] {
    const nb::gil_scoped_release unlocked;
    ThreadPool pool(engine.info().num_threads);
    options.pool = &pool;
    return refit::receive_ipc(endpoint, spec, engine.generation().updates(), options);
  }();
  watch.raise_again();
  check(report.status());
  return {report->batches, report->tensors, report->bytes};
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

// A sender whose waits Ctrl-C ends. One thread at a time.
class Sender {
 public:
  static std::unique_ptr<Sender> make(const std::string& endpoint,
                                      std::shared_ptr<refit::IpcBuffers> buffers,
                                      double timeout_s) {
    auto made = std::make_unique<Sender>();
    made->buffers_ = std::move(buffers);
    refit::IpcSendOptions options{.buffers = made->buffers_.get(),
                                  .timeout = to_milliseconds(timeout_s)};
    options.interrupted = [raw = made.get()] { return raw->watch_.interrupted(); };
    const nb::gil_scoped_release unlocked;
    made->sender_.emplace(unwrap(refit::IpcSender::create(endpoint, options)));
    return made;
  }

  void send(const std::string& name, const AnyTensor& tensor) {
    const auto bytes = bytes_of(name, tensor);
    run([&] { return sender_->send(name, bytes); });
  }
  void finish() {
    run([&] { return sender_->finish(); });
  }

 private:
  template <typename Call>
  void run(const Call& call) {
    const Status done = [&] {
      const nb::gil_scoped_release unlocked;
      return call();
    }();
    watch_.raise_again();
    check(done);
  }

  std::shared_ptr<refit::IpcBuffers> buffers_;
  Watch watch_;
  std::optional<refit::IpcSender> sender_;
};

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

// Both wait for the step that is under way, which a large prefill makes long.
void pause(Engine& engine, const std::string& mode_name, bool clear_cache,
           std::optional<double> timeout_s) {
  const PauseMode mode = unwrap(parse_pause_mode(mode_name));
  generation::PauseOptions options{.clear_cache = clear_cache};
  if (timeout_s) options.timeout = to_milliseconds(*timeout_s);
  wait_for(engine,
           {.work = [&engine, mode, options] { return engine.generation().pause(mode, options); }});
}

void resume(Engine& engine, std::optional<double> timeout_s) {
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

void bind_pause(nb::class_<Engine>& engine) {
  engine.def("pause", &pause, "mode"_a, "clear_cache"_a = false, "timeout_s"_a = nb::none())
      .def("resume", &resume, "timeout_s"_a = nb::none())
      .def(
          "paused", [](Engine& self) { return self.generation().paused(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("invalidate_kv_cache", &invalidate_kv_cache);
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
      .def(
          "abort_update",
          [](Engine& self, const std::string& id) { check(self.generation().updates().abort(id)); },
          "update_id"_a, unlocked)
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
             bool check_finite, std::optional<double> timeout_s) {
            new (self) UpdateWords{std::move(update_id), version, std::move(kv_policy), base,
                                   allow_rollback,       cast,    check_finite,         timeout_s};
          },
          "update_id"_a, "version"_a = nb::none(), "kv_policy"_a = "recompute",
          "base"_a = nb::none(), "allow_rollback"_a = false, "cast"_a = false,
          "check_finite"_a = false, "timeout_s"_a = nb::none());
}

void wake(Engine& engine, bool weights, bool kv_cache) {
  wait_for(engine, {.work = [&engine, weights, kv_cache] {
             return engine.generation().wake({weights, kv_cache});
           }});
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

void bind_ipc(nb::module_& module, nb::class_<Engine>& engine) {
  module.def(
      "ipc_endpoint",
      [](const std::string& folder, const std::string& run, const std::string& shard) {
        return unwrap(refit::ipc_endpoint(folder, run, shard));
      },
      "folder"_a, "run"_a, "shard"_a);
  nb::class_<refit::IpcBuffers>(module, "IpcBuffers", "Shared memory of a sender.")
      .def(nb::new_([](int64_t buffer_bytes) {
             return std::make_shared<refit::IpcBuffers>(
                 unwrap(refit::IpcBuffers::create(buffer_bytes)));
           }),
           "buffer_bytes"_a);
  nb::class_<Sender>(module, "IpcSender", "Sends tensors to an engine of this machine.")
      .def(nb::new_(&Sender::make), "endpoint"_a, "buffers"_a, "timeout_s"_a)
      .def("send", &Sender::send, "name"_a, "tensor"_a.noconvert())
      .def("finish", &Sender::finish);
  engine.def("receive_ipc", &receive_ipc, "endpoint"_a, "manifest"_a, "options"_a,
             "message_timeout_s"_a);
}

}  // namespace

void bind_weights(nb::module_& module, nb::class_<Engine>& engine) {
  bind_options(module);
  bind_pause(engine);
  bind_sleep(engine);
  bind_update(engine);
  bind_ipc(module, engine);
}

}  // namespace rlgen::python
