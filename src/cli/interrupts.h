#pragma once

#include <csignal>
#include <optional>

#include "generation/line_reader.h"

namespace rlgen::cli {

// Holds back SIGINT and SIGTERM for as long as the object lives, so that a run can stop between two
// lines instead of dying inside one; SIGPIPE is ignored (a closed pipe is a write error). Make it
// before any thread starts: threads inherit the mask. Once one signal was seen, the next one ends
// the process at once.
class Interrupts {
 public:
  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  // The signal that came, if any. From the thread that made the object.
  std::optional<int> poll();

  // For a reader of input, from the same thread: as long as it takes, or not at all where
  // `may_wait` is false, and in either case only until a signal comes.
  generation::InputWait input_wait(bool may_wait) const;

  // Exit code of a process that a signal stopped: 128 + its number.
  static int exit_code(int signal) { return 128 + signal; }

 private:
  void let_through();

  sigset_t held_;
  sigset_t before_;
  int pending_fd_ = -1;  // can be read while a held signal waits to be looked at
  std::optional<int> seen_;
};

}  // namespace rlgen::cli
