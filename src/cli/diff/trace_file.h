#pragma once

#include <string>

#include "base/status.h"
#include "cli/diff/trace.h"

namespace rlgen::cli {

// A trace as a safetensors file (docs/diff.md): for sequence I `I.token_ids`, I32 [tokens], and for
// each place `I.<point_name>`, F32 [positions from 0 on, width]. `source` says in words what made
// it. kFailedPrecondition where a position before the last is missing; else write errors.
Status write_trace(const std::string& path, const Trace& trace, const std::string& source);

// kDataLoss names the file and the tensor that is none of a trace; else read errors.
StatusOr<Trace> read_trace(const std::string& path);

}  // namespace rlgen::cli
