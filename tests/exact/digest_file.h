#pragma once

#include <string_view>

#include "base/hash.h"

namespace rlgen {

// Prints "digest NAME HEX" on standard output and, where the environment names a file in
// RLGEN_DIGEST_FILE, appends the line to it. Two builds compute the same where their files are the
// same. False when the file cannot be written.
bool report_digest(std::string_view name, const Digest& digest);

}  // namespace rlgen
