#include "refit/zmq_socket.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rlgen::refit {
namespace {

constexpr const char* kEvents = "inproc://events";
constexpr std::string_view kLocal = "ipc://";

constexpr std::chrono::milliseconds kLook{50};

using SteadyTime = std::chrono::steady_clock::time_point;

Status given_up(std::string_view endpoint) {
  return absl::CancelledError(fmt::format("the wait at {} was given up", endpoint));
}

// Milliseconds of one poll of a wait that ends at `end`.
long slice(const ZmqWait& wait, SteadyTime end) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyTime::clock::now());
  if (wait.interrupted) left = std::min(left, kLook);
  return long(std::max<int64_t>(left.count(), 0));
}

Status zmq_error(std::string_view what, std::string_view endpoint) {
  return absl::UnavailableError(
      fmt::format("cannot {} {}: {}", what, endpoint, zmq_strerror(zmq_errno())));
}

}  // namespace

struct ZmqSocket::State {
  std::string endpoint;
  void* context = nullptr;
  void* socket = nullptr;
  void* events = nullptr;  // of the connection
  bool lost = false;
  bool bound = false;  // to a file, which ZeroMQ leaves behind

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (socket != nullptr) zmq_socket_monitor(socket, nullptr, 0);
    if (events != nullptr) zmq_close(events);
    if (socket != nullptr) zmq_close(socket);
    if (context != nullptr) zmq_ctx_term(context);
    if (bound) ::unlink(endpoint.substr(kLocal.size()).c_str());
  }

  // An event has two parts: its number first, then an address that does not matter.
  void take_event() {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, events, ZMQ_DONTWAIT) >= 2) {
      uint16_t event = 0;
      std::memcpy(&event, zmq_msg_data(&part), sizeof(event));
      lost = event == ZMQ_EVENT_DISCONNECTED;
    }
    const bool more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
    if (!more) return;
    zmq_msg_init(&part);
    zmq_msg_recv(&part, events, ZMQ_DONTWAIT);
    zmq_msg_close(&part);
  }
};

ZmqSocket::ZmqSocket(std::unique_ptr<State> state) : state_(std::move(state)) {}
ZmqSocket::ZmqSocket(ZmqSocket&&) noexcept = default;
ZmqSocket& ZmqSocket::operator=(ZmqSocket&&) noexcept = default;
ZmqSocket::~ZmqSocket() = default;

StatusOr<ZmqSocket> ZmqSocket::make(int type, const std::string& endpoint, bool bind) {
  auto state = std::make_unique<State>();
  state->endpoint = endpoint;
  state->context = zmq_ctx_new();
  if (state->context == nullptr) return zmq_error("use ZeroMQ for", endpoint);
  state->socket = zmq_socket(state->context, type);
  if (state->socket == nullptr) return zmq_error("make a socket for", endpoint);
  const int linger = 0;
  zmq_setsockopt(state->socket, ZMQ_LINGER, &linger, sizeof(linger));
  const int again_ms = 1;  // the other end may bind later: soon, or much later
  const int seldom_ms = 10;
  zmq_setsockopt(state->socket, ZMQ_RECONNECT_IVL, &again_ms, sizeof(again_ms));
  zmq_setsockopt(state->socket, ZMQ_RECONNECT_IVL_MAX, &seldom_ms, sizeof(seldom_ms));
  const int64_t most = 64 << 20;
  zmq_setsockopt(state->socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
  if (zmq_socket_monitor(state->socket, kEvents, ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED) !=
      0) {
    return zmq_error("watch", endpoint);
  }
  state->events = zmq_socket(state->context, ZMQ_PAIR);
  if (state->events == nullptr || zmq_connect(state->events, kEvents) != 0) {
    return zmq_error("watch", endpoint);
  }
  const int made = bind ? zmq_bind(state->socket, endpoint.c_str())
                        : zmq_connect(state->socket, endpoint.c_str());
  if (made != 0) return zmq_error(bind ? "bind" : "connect to", endpoint);
  state->bound = bind && endpoint.starts_with(kLocal);
  return ZmqSocket(std::move(state));
}

StatusOr<ZmqSocket> ZmqSocket::bind_asking(const std::string& endpoint) {
  return make(ZMQ_REQ, endpoint, /*bind=*/true);
}

StatusOr<ZmqSocket> ZmqSocket::connect_answering(const std::string& endpoint) {
  return make(ZMQ_REP, endpoint, /*bind=*/false);
}

Status ZmqSocket::send(std::string_view message, const ZmqWait& wait) {
  const SteadyTime end = SteadyTime::clock::now() + wait.timeout;
  while (zmq_send(state_->socket, message.data(), message.size(), ZMQ_DONTWAIT) < 0) {
    if (zmq_errno() != EAGAIN && zmq_errno() != EINTR) {
      return zmq_error("send to", state_->endpoint);
    }
    if (wait.interrupted && wait.interrupted()) return given_up(state_->endpoint);
    if (SteadyTime::clock::now() >= end) {
      return absl::DeadlineExceededError(fmt::format("nobody took a message at {} within {} ms",
                                                     state_->endpoint, wait.timeout.count()));
    }
    zmq_pollitem_t items[] = {{state_->socket, 0, ZMQ_POLLOUT, 0}};
    zmq_poll(items, 1, slice(wait, end));  // its errors are those of the next send
  }
  return absl::OkStatus();
}

StatusOr<std::string> ZmqSocket::receive(const ZmqWait& wait, bool notice_loss) {
  const SteadyTime end = SteadyTime::clock::now() + wait.timeout;
  while (true) {
    zmq_pollitem_t items[] = {{state_->socket, 0, ZMQ_POLLIN, 0},
                              {state_->events, 0, ZMQ_POLLIN, 0}};
    const int ready = zmq_poll(items, 2, slice(wait, end));
    if (ready < 0 && zmq_errno() != EINTR) return zmq_error("wait at", state_->endpoint);
    if (ready > 0 && (items[0].revents & ZMQ_POLLIN) != 0) break;
    if (ready > 0 && (items[1].revents & ZMQ_POLLIN) != 0) state_->take_event();
    if (notice_loss && state_->lost) {
      return absl::UnavailableError(fmt::format("the other end of {} is gone", state_->endpoint));
    }
    if (wait.interrupted && wait.interrupted()) return given_up(state_->endpoint);
    if (ready == 0 && SteadyTime::clock::now() >= end) {
      return absl::DeadlineExceededError(
          fmt::format("no message at {} within {} ms", state_->endpoint, wait.timeout.count()));
    }
  }
  zmq_msg_t message;
  zmq_msg_init(&message);
  if (zmq_msg_recv(&message, state_->socket, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&message);
    return zmq_error("receive from", state_->endpoint);
  }
  std::string text(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
  zmq_msg_close(&message);
  return text;
}

}  // namespace rlgen::refit
