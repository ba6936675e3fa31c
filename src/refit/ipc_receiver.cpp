#include "refit/ipc_receiver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "contract/error_type.h"
#include "contract/manifest_error.h"
#include "refit/ipc_endpoint.h"
#include "refit/pickle_frame.h"
#include "refit/shared_memory.h"
#include "refit/tensor_writer.h"
#include "refit/zmq_socket.h"

namespace rlgen::refit {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view kAck = "ack";
constexpr size_t kListedNames = 8;

// `status` with the type that errors of the manifest have over this transport, if it is one.
Status typed(Status status) {
  return is_manifest_error(status) ? with_error_type(std::move(status), "IPCWeightManifestError")
                                   : status;
}

Status unfit(const std::string& message) {
  return typed(manifest_error(absl::InvalidArgumentError(message)));
}

// What arrives, held against the manifest.
class Arrivals {
 public:
  explicit Arrivals(const UpdateSpec& spec) : update_id_(spec.update_id) {
    for (const ManifestEntry& entry : spec.manifest) expected_.emplace(entry.name, &entry);
  }

  bool sound() const {
    return duplicate_.empty() && unexpected_.empty() && unlike_.empty() && !failed_.has_value();
  }
  // The first error is the one that is told.
  void fail(const Status& status) {
    if (sound()) failed_ = status;
  }
  const IpcReport& report() const { return report_; }

  void take(const IpcFrame& frame, WeightSink& sink, ThreadPool* pool) {
    ++report_.batches;
    std::vector<const ManifestEntry*> entries;
    for (size_t i = 0; i < frame.names.size(); ++i) {
      const std::string& name = frame.names[i];
      const auto found = expected_.find(name);
      if (found == expected_.end()) {
        unexpected_.push_back(name);
      } else if (!seen_.insert(name).second) {
        duplicate_.push_back(name);
      } else {
        entries.push_back(found->second);
        if (!frame.layouts.empty()) compare(*found->second, frame.layouts[i]);
      }
    }
    if (!sound()) return;
    const Status status = write(frame, entries, sink, pool);
    if (!status.ok()) fail(status);
  }

  // After the last batch.
  Status check() const {
    std::vector<std::string> missing;
    for (const auto& [name, entry] : expected_) {
      if (!seen_.contains(name)) missing.push_back(name);
    }
    std::string faults;
    add_fault("duplicate", duplicate_, &faults);
    add_fault("unexpected", unexpected_, &faults);
    add_fault("of another type or shape", unlike_, &faults);
    if (failed_) return *failed_;
    if (sound()) add_fault("missing", missing, &faults);
    if (faults.empty()) return absl::OkStatus();
    return unfit("the weights sent do not fit the manifest: " + faults);
  }

 private:
  void compare(const ManifestEntry& entry, const std::string& sent) {
    const std::string announced = ipc_layout(entry.dtype, entry.shape);
    if (sent == announced) return;
    unlike_.push_back(fmt::format("{}: sent {}, announced {}", entry.name, sent, announced));
  }

  static void add_fault(std::string_view what, const std::vector<std::string>& names,
                        std::string* faults) {
    if (names.empty()) return;
    const size_t listed = std::min(names.size(), kListedNames);
    *faults += fmt::format("{}{} {} ({}{})", faults->empty() ? "" : "; ", names.size(), what,
                           fmt::join(names.begin(), names.begin() + ptrdiff_t(listed), ", "),
                           names.size() > listed ? ", ..." : "");
  }

  // A buffer that comes again is mapped once.
  StatusOr<const SharedMemory*> buffer_of(const IpcFrame& frame) {
    const auto known = buffers_.find(frame.buffer);
    if (known != buffers_.end() && known->second.size() == frame.buffer_bytes) {
      return &known->second;
    }
    RLGEN_ASSIGN_OR_RETURN(SharedMemory memory,
                           SharedMemory::open(frame.buffer, frame.buffer_bytes));
    if (buffers_.size() >= kMostBuffers) buffers_.clear();
    return &buffers_.insert_or_assign(frame.buffer, std::move(memory)).first->second;
  }

  Status write(const IpcFrame& frame, const std::vector<const ManifestEntry*>& entries,
               WeightSink& sink, ThreadPool* pool) {
    RLGEN_ASSIGN_OR_RETURN(const SharedMemory* const memory, buffer_of(frame));
    std::vector<TensorSource> tensors;
    size_t offset = 0;
    for (const ManifestEntry* entry : entries) {
      const auto size = size_t(entry->shape.num_elements() * size_of(entry->dtype));
      const auto bytes = memory->bytes();
      if (offset > bytes.size() || size > bytes.size() - offset) {
        return unfit(fmt::format("tensor {}: {} bytes at {} are outside the buffer's {} bytes",
                                 entry->name, size, offset, bytes.size()));
      }
      tensors.push_back(
          {entry->name, entry->shape, bytes.subspan(offset, size), {}, !entry->digest.empty()});
      offset = ipc_align(offset + size);
      report_.bytes += int64_t(size);
    }
    if (offset != size_t(frame.used_bytes)) {
      return unfit(fmt::format(
          "the batch of tensor {} and {} more has {} bytes and the manifest's types and "
          "shapes need {}",
          entries.empty() ? "none" : entries[0]->name, entries.empty() ? 0 : entries.size() - 1,
          frame.used_bytes, offset));
    }
    report_.tensors += int64_t(tensors.size());
    return write_tensors(tensors, update_id_, sink, pool, [](std::span<const std::byte>) {});
  }

  static constexpr size_t kMostBuffers = 4;  // two that alternate, and ones of large tensors

  const std::string update_id_;
  std::map<std::string, const ManifestEntry*, std::less<>> expected_;
  std::set<std::string, std::less<>> seen_;
  std::vector<std::string> duplicate_;
  std::vector<std::string> unexpected_;
  std::vector<std::string> unlike_;
  std::optional<Status> failed_;
  std::map<std::string, SharedMemory> buffers_;
  IpcReport report_;
};

// Until the COMPLETE message, which is not answered yet.
Status take_batches(ZmqSocket& socket, const UpdateSpec& spec, WeightSink& sink,
                    const IpcReceiveOptions& options, Arrivals* arrivals) {
  const auto begun = SteadyClock::now();
  bool any = false;
  while (true) {
    milliseconds wait = options.timeout;
    if (spec.deadline) {
      const auto left = begun + *spec.deadline - SteadyClock::now();
      wait = std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0), wait);
      if (left <= left.zero()) {
        return absl::DeadlineExceededError(
            fmt::format("the update was not complete within {} ms", spec.deadline->count()));
      }
    }
    RLGEN_ASSIGN_OR_RETURN(const std::string message,
                           socket.receive({wait, options.interrupted}, /*notice_loss=*/any));
    any = true;
    const auto frame = read_frame(std::as_bytes(std::span(message)));
    if (frame.ok() && frame->complete) return absl::OkStatus();
    if (!frame.ok()) {
      arrivals->fail(frame.status());
    } else if (arrivals->sound()) {
      arrivals->take(*frame, sink, options.pool);
    }
    RLGEN_RETURN_IF_ERROR(socket.send(kAck, {options.timeout, options.interrupted}));
  }
}

}  // namespace

StatusOr<IpcReport> receive_ipc(const std::string& endpoint, const UpdateSpec& spec,
                                WeightSink& sink, const IpcReceiveOptions& options) {
  RLGEN_ASSIGN_OR_RETURN(ZmqSocket socket, ZmqSocket::connect_answering(endpoint));
  RLGEN_RETURN_IF_ERROR(typed(sink.begin(spec)));
  Arrivals arrivals(spec);
  Status received = take_batches(socket, spec, sink, options, &arrivals);
  const bool answer = received.ok();
  if (received.ok()) received = arrivals.check();
  const Status done = finish_update(std::move(received), spec.update_id, sink);
  if (answer) {
    const Status acked = socket.send(kAck, {options.timeout, options.interrupted});
    if (done.ok()) RLGEN_RETURN_IF_ERROR(annotate(acked, "the weights are served, but"));
  }
  RLGEN_RETURN_IF_ERROR(annotate(done, "weights over " + endpoint));
  return arrivals.report();
}

}  // namespace rlgen::refit
