#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "contract/weight_sink.h"

namespace rlgen::refit {

struct IpcReceiveOptions {
  std::chrono::milliseconds timeout{120'000};  // for each message
  ThreadPool* pool = nullptr;                  // packs; null: the calling thread alone
  std::function<bool()> interrupted;  // asked about every 50 ms of a wait; true: kCancelled
};

// What came.
struct IpcReport {
  int64_t batches = 0;
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the tensors, without the gaps between them
};

// The receiving end of a trainer's process on this machine: takes a whole update from the sender at
// `endpoint` (ipc_endpoint) into `sink` and commits it. Tensors come in batches through shared
// memory, of the types and shapes of the manifest of `spec`, which is begun before the first
// message. Each message is answered with "ack", the last one after the commit.
//
// Names that come twice, are not expected or are missing, and tensors of another type or shape, are
// collected. A sender that does not say types and shapes (IpcFrame::layouts) is held to the sum of
// a batch's sizes, each rounded up to the alignment: nothing else tells where a tensor ends.
// After the first error batches are answered and skipped, and the end gives kInvalidArgument with
// counts and at most eight names each. What does not fit the manifest, or the manifest the model
// (manifest_error.h), has the error type IPCWeightManifestError (contract/error_type.h). Any other
// error keeps the type of its code, kInvalidArgument too: a version or an id that cannot be, a
// message that is no frame, a value that is not finite. On any error the update is aborted and the
// old weights serve: also kDeadlineExceeded (no message in time, or `spec.deadline`, which counts
// from the call on), kUnavailable (the sender is gone after it had begun) and kCancelled
// (`interrupted`). Blocks; runs on no other thread than the pool's.
StatusOr<IpcReport> receive_ipc(const std::string& endpoint, const UpdateSpec& spec,
                                WeightSink& sink, const IpcReceiveOptions& options);

}  // namespace rlgen::refit
