#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::refit {

// How long a socket waits. `interrupted` is asked about every 50 ms; empty: nobody interrupts.
struct ZmqWait {
  std::chrono::milliseconds timeout;
  const std::function<bool()>& interrupted;
};

// One end of a local ZeroMQ connection that asks or answers, in turn. Nothing lingers when it is
// closed. Move only; one thread at a time.
class ZmqSocket {
 public:
  // Asks (REQ) and owns the endpoint: its file is made now and removed with the object.
  static StatusOr<ZmqSocket> bind_asking(const std::string& endpoint);
  // Answers (REP); the other end may come later.
  static StatusOr<ZmqSocket> connect_answering(const std::string& endpoint);

  ZmqSocket(ZmqSocket&&) noexcept;
  ZmqSocket& operator=(ZmqSocket&&) noexcept;
  ~ZmqSocket();

  // kDeadlineExceeded where the message could not be taken in time, kCancelled where the caller's
  // `interrupted` says true; kUnavailable for any other trouble of the socket, with its text.
  Status send(std::string_view message, const ZmqWait& wait);
  // Also kUnavailable ("the other end is gone") once a connection that stood has broken, for
  // whoever asks `notice_loss`.
  StatusOr<std::string> receive(const ZmqWait& wait, bool notice_loss);

 private:
  struct State;
  explicit ZmqSocket(std::unique_ptr<State> state);
  static StatusOr<ZmqSocket> make(int type, const std::string& endpoint, bool bind);

  std::unique_ptr<State> state_;
};

}  // namespace rlgen::refit
