#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace rlgen::refit {

// What a pickle of plain values says. A global is a name and a call a callable with its arguments;
// neither is ever acted on.
struct PickleValue {
  enum class Kind { kNone, kBool, kInteger, kText, kBytes, kList, kTuple, kGlobal, kCall, kMark };
  Kind kind = Kind::kNone;
  int64_t number = 0;              // kBool, kInteger
  std::string text;                // kText, kBytes; kGlobal: the name without its module
  std::vector<PickleValue> items;  // kList, kTuple; kCall: callable and arguments
};

// The one value of a pickle. Opcodes of other shapes, more than one value, and values beyond a
// bound on their number are kInvalidArgument with the byte.
StatusOr<PickleValue> read_pickle(std::span<const std::byte> bytes);

}  // namespace rlgen::refit
