#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "refit/pickle_frame.h"
#include "refit/shared_memory.h"
#include "refit/zmq_socket.h"
#include "tensor/tensor_view.h"

namespace rlgen::refit {

// Of both staging buffers together.
inline constexpr int64_t kIpcBufferBytes = int64_t(32) << 20;

// A batch goes once it holds so much, however much more its buffer would: what one side has written
// is then still in a cache when the other side reads it, and in the same pages every time. Batches
// of half the size wait longer for messages, larger ones for memory.
inline constexpr int64_t kIpcBatchBytes = int64_t(4) << 20;

// A sender's staging memory, which a trainer keeps from one update to the next: the first touch of
// shared memory costs several times a copy. One sender at a time. Move only.
struct IpcBuffers {
  // kInvalidArgument for a budget that is not above 1; errors of shared memory.
  static StatusOr<IpcBuffers> create(int64_t buffer_bytes = kIpcBufferBytes);

  SharedMemory halves[2];
  std::optional<SharedMemory> alone;  // of the largest tensor that needed one of its own
};

struct IpcSendOptions {
  int64_t buffer_bytes = kIpcBufferBytes;
  IpcBuffers* buffers = nullptr;  // outlive the sender; null: it makes its own, of buffer_bytes
  std::chrono::milliseconds timeout{120'000};  // for each answer
  std::function<bool()> interrupted;  // asked about every 50 ms of a wait; true: kCancelled
};

// The trainer's end: packs tensors, in the order of the calls, into two buffers of shared memory by
// turns and fills one while the receiver reads the other. A tensor larger than one of them has one
// of its own, which the receiver reads while the next batch is filled, and which is freed once it
// was read unless the buffers are kept. One thread at a time.
// Buffers that it made and the socket's file go with the object, on every path.
class IpcSender {
 public:
  // Errors of sockets and of IpcBuffers::create.
  static StatusOr<IpcSender> create(const std::string& endpoint, const IpcSendOptions& options);

  // One whole tensor. kInvalidArgument for one that is not dense. kDeadlineExceeded when the
  // receiver does not answer in time: it may be dead or stuck. kCancelled where `interrupted` said
  // so; the update is lost then.
  Status send(std::string_view name, const TensorView& tensor);
  // What is left, then COMPLETE. The receiver answers once it serves the weights, or has refused
  // them: which of the two, only its side knows.
  Status finish();

 private:
  IpcSender(ZmqSocket socket, const IpcSendOptions& options, std::unique_ptr<IpcBuffers> own);
  Status flush();
  Status send_alone(std::string_view name, const TensorView& tensor);
  Status send_frame(const IpcFrame& frame);
  Status await_answer();
  ZmqWait wait() const { return {options_.timeout, options_.interrupted}; }

  ZmqSocket socket_;
  IpcSendOptions options_;
  std::unique_ptr<IpcBuffers> own_;  // null where the caller keeps them
  IpcBuffers* buffers_;
  int filling_ = 0;
  IpcFrame batch_;           // what the filling buffer holds
  bool waiting_ = false;     // for an answer
  bool alone_sent_ = false;  // the answer is that to the buffer of one tensor
};

}  // namespace rlgen::refit
