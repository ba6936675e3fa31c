#pragma once

#include <cstdint>

namespace rlgen {

// Names one sequence (one sample of one request) for as long as it is in flight. Given out by the
// caller of a shard, never reused by it.
using SequenceId = uint64_t;

// The trainer's label of a set of weights: a non-negative integer. A loaded checkpoint is 0.
using WeightVersion = int64_t;

// Names one set of weights inside, given out once and never reused; equal serials mean equal bytes.
// 0 means "no weights".
using WeightSerial = uint64_t;

}  // namespace rlgen
