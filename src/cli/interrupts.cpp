#include "cli/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace rlgen::cli {

Interrupts::Interrupts() {
  sigemptyset(&held_);
  sigaddset(&held_, SIGINT);
  sigaddset(&held_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
  pending_fd_ = ::signalfd(-1, &held_, SFD_CLOEXEC | SFD_NONBLOCK);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then an error of the write
}

Interrupts::~Interrupts() {
  let_through();
  if (pending_fd_ >= 0) ::close(pending_fd_);
}

void Interrupts::let_through() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> Interrupts::poll() {
  if (seen_) return seen_;
  const timespec no_wait{};
  const int signal = sigtimedwait(&held_, nullptr, &no_wait);
  if (signal > 0) {
    seen_ = signal;
    let_through();
  }
  return seen_;
}

generation::InputWait Interrupts::input_wait(bool may_wait) const {
  generation::InputWait wait{.stop_fd = pending_fd_, .patience = {}};
  if (!may_wait) wait.patience = std::chrono::milliseconds(0);
  return wait;
}

}  // namespace rlgen::cli
