#include "bindings/mailbox.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace rlgen::python {

StatusOr<std::shared_ptr<Mailbox>> Mailbox::make() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("no event file descriptor for a stream: {}", std::strerror(errno)));
  }
  return std::shared_ptr<Mailbox>(new Mailbox(fd));
}

Mailbox::~Mailbox() { close(fd_); }

void Mailbox::post(Piece piece) {
  const std::lock_guard lock(mutex_);
  pieces_.push_back(std::move(piece));
  // The count is 1 at most, so writing cannot fail.
  if (pieces_.size() == 1) eventfd_write(fd_, 1);
}

std::vector<Piece> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  eventfd_t count = 0;
  if (!pieces_.empty()) eventfd_read(fd_, &count);
  return std::exchange(pieces_, {});
}

generation::RequestObserver post_to(std::shared_ptr<Mailbox> mailbox, int64_t ticket) {
  // The last tokens of a sample come just before its rollout, on the same thread.
  auto last = std::make_shared<std::map<int32_t, Piece>>();
  generation::RequestObserver observer;
  observer.on_tokens = [mailbox, last, ticket](int32_t sample, std::span<const TokenRecord> tokens,
                                               const RouteSpan& routes, const Finish* finish) {
    Piece piece{.ticket = ticket, .sample = sample, .tokens = {tokens.begin(), tokens.end()}};
    piece.routes = routes;
    if (finish != nullptr) {
      (*last)[sample] = std::move(piece);
    } else {
      mailbox->post(std::move(piece));
    }
  };
  observer.on_rollout = [mailbox, last, ticket](Rollout rollout) {
    Piece piece = std::move((*last)[rollout.sample]);
    last->erase(rollout.sample);
    piece.rollout = std::move(rollout);
    mailbox->post(std::move(piece));
  };
  return observer;
}

}  // namespace rlgen::python
