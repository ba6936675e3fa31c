#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "refit/pickle_frame.h"
#include "refit/shared_memory.h"
#include "refit/zmq_socket.h"

namespace rlgen::refit {

struct IpcSendOptions {
  int64_t buffer_bytes = int64_t(256) << 20;   // of both staging buffers together
  std::chrono::milliseconds timeout{120'000};  // for each answer
  std::function<bool()> interrupted;  // asked about every 50 ms of a wait; true: kCancelled
};

// The trainer's end: packs tensors, in the order of the calls, into two buffers of shared memory by
// turns and fills one while the receiver reads the other. A tensor larger than one of them has one
// of its own, which is freed once it was read. One thread at a time. Buffers and the socket's file
// go with the object, on every path.
class IpcSender {
 public:
  // kInvalidArgument for a budget that is not above 0; errors of sockets and shared memory.
  static StatusOr<IpcSender> create(const std::string& endpoint, const IpcSendOptions& options);

  // Bytes of one whole tensor. kDeadlineExceeded when the receiver does not answer in time: it may
  // be dead or stuck. kCancelled where `interrupted` said so; the update is lost then.
  Status send(std::string_view name, std::span<const std::byte> bytes);
  // What is left, then COMPLETE. The receiver answers once it serves the weights, or has refused
  // them: which of the two, only its side knows.
  Status finish();

 private:
  IpcSender(ZmqSocket socket, const IpcSendOptions& options, SharedMemory first,
            SharedMemory second);
  Status flush();
  Status send_alone(std::string_view name, std::span<const std::byte> bytes);
  Status send_frame(const IpcFrame& frame);
  Status await_answer();
  ZmqWait wait() const { return {options_.timeout, options_.interrupted}; }

  ZmqSocket socket_;
  IpcSendOptions options_;
  SharedMemory buffers_[2];
  int filling_ = 0;
  IpcFrame batch_;        // what the filling buffer holds
  bool waiting_ = false;  // for an answer
};

}  // namespace rlgen::refit
