#include "bindings/bind_ipc.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>

#include "base/thread_pool.h"
#include "bindings/errors.h"
#include "bindings/update_words.h"
#include "bindings/watch.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

namespace rlgen::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using Report = std::tuple<int64_t, int64_t, int64_t>;

Report receive_ipc(Engine& engine, const std::string& endpoint, const std::vector<Entry>& manifest,
                   const UpdateWords& words, Seconds message_timeout_s) {
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

// A sender whose waits Ctrl-C ends. One thread at a time.
class Sender {
 public:
  static std::unique_ptr<Sender> make(const std::string& endpoint,
                                      std::shared_ptr<refit::IpcBuffers> buffers,
                                      Seconds timeout_s) {
    auto made = std::make_unique<Sender>();
    made->buffers_ = std::move(buffers);
    refit::IpcSendOptions options{.buffers = made->buffers_.get(),
                                  .timeout = to_milliseconds(timeout_s)};
    options.interrupted = [raw = made.get()] { return raw->watch_.interrupted(); };
    const nb::gil_scoped_release unlocked;
    made->sender_.emplace(unwrap(refit::IpcSender::create(endpoint, options)));
    return made;
  }

  void send(const std::string& name, const std::string& dtype, const AnyTensor& tensor) {
    const TensorView view = view_of(name, dtype, tensor);
    run([&] { return sender_->send(name, view); });
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

}  // namespace

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
      .def("send", &Sender::send, "name"_a, "dtype"_a, "tensor"_a.noconvert())
      .def("finish", &Sender::finish);
  engine.def("receive_ipc", &receive_ipc, "endpoint"_a, "manifest"_a, "options"_a,
             "message_timeout_s"_a);
}

}  // namespace rlgen::python
