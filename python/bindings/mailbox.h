#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "contract/rollout.h"
#include "generation/generation.h"

namespace rlgen::python {

// What came of one sample since the last piece.
struct Piece {
  int64_t ticket = 0;  // of its request, as post_to got it
  int32_t sample = 0;
  std::vector<TokenRecord> tokens;
  RouteSpan routes;                // of the rows that follow those of earlier pieces
  std::optional<Rollout> rollout;  // with the last piece of a sample, without text
};

// News on their way from the shards' threads to one Python thread. The shards' side never waits and
// never takes the interpreter's lock: the reader polls `fd`, which is readable while pieces are
// there. Thread-safe.
class Mailbox {
 public:
  // kResourceExhausted when the process has no file descriptor left.
  static StatusOr<std::shared_ptr<Mailbox>> make();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int fd() const { return fd_; }
  void post(Piece piece);
  // Everything that is there, oldest first; `fd` is not readable afterwards.
  std::vector<Piece> take();

 private:
  explicit Mailbox(int fd) : fd_(fd) {}

  const int fd_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;  // guarded by mutex_
};

// Posts the news of one request, which holds the mailbox until its last sample has ended.
generation::RequestObserver post_to(std::shared_ptr<Mailbox> mailbox, int64_t ticket);

}  // namespace rlgen::python
