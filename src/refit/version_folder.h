#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "contract/ids.h"

namespace rlgen::refit {

// A trainer's folder of versions: one subfolder each, a checkpoint in Hugging Face's layout, whose
// name is a number or ends in one after '_' or '-' ("step_12"). A version counts once it holds the
// empty file kStableMarker, which the trainer writes last.
inline constexpr const char* kStableMarker = "STABLE";

struct StoredVersion {
  WeightVersion version = 0;
  std::string folder;
};

// The highest version that is complete and at least `at_least`; nothing where there is none yet.
// kNotFound when `root` is no folder; kInvalidArgument when two subfolders have that number.
StatusOr<std::optional<StoredVersion>> newest_version(const std::string& root,
                                                      WeightVersion at_least);

// Waits for one, looking every `kVersionPoll`. kDeadlineExceeded says what is there instead.
// `interrupted` is asked before each look; true: kCancelled.
inline constexpr std::chrono::milliseconds kVersionPoll{50};
StatusOr<StoredVersion> wait_for_version(const std::string& root, WeightVersion at_least,
                                         std::chrono::milliseconds timeout, Clock& clock,
                                         const std::function<bool()>& interrupted = {});

}  // namespace rlgen::refit
