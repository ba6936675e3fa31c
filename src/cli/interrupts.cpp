#include "cli/interrupts.h"

#include <ctime>

namespace rlgen::cli {

Interrupts::Interrupts() {
  sigemptyset(&held_);
  sigaddset(&held_, SIGINT);
  sigaddset(&held_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held_, &before_);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then an error of the write
}

Interrupts::~Interrupts() { let_through(); }

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

}  // namespace rlgen::cli
