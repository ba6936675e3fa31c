#pragma once

#include <string>

#include "base/status.h"
#include "cli/interrupts.h"
#include "cli/session.h"
#include "contract/sampling_params.h"

namespace rlgen::cli {

// One prompt for `generate --prompt`.
struct StreamJob {
  std::string prompt;
  bool chat = false;  // `prompt` is a user's message
  SamplingParams sampling;
};

// Rolls the prompt out and writes the text to standard output: of one sample as it comes, of
// several one after the other under headings as they finish. Returns the exit code. An error
// where the prompt or a sample failed.
StatusOr<int> stream_prompt(const StreamJob& job, Session& session, Interrupts& interrupts);

}  // namespace rlgen::cli
