#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rlgen::refit {

// A message of a sender of weights over a local socket, which Python pickles. Only these shapes are
// known, as data: nothing that a message names is looked up or called.
//
//   batch:     (handle, [tensor names], used_bytes)
//     handle:  (kind, name, size, [type and shape of each tensor]), or the first three alone
//   complete:  the member COMPLETE of an enumeration called IPCProtocol, or the text "complete"
struct IpcFrame {
  bool complete = false;

  // Of a batch. The buffer is shared memory of that name (kind kSharedMemoryKind).
  std::string buffer;
  int64_t buffer_bytes = 0;
  std::vector<std::string> names;
  int64_t used_bytes = 0;
  // Of each tensor, as ipc_layout says it; none where the sender does not tell.
  std::vector<std::string> layouts{};

  bool operator==(const IpcFrame&) const = default;
};

inline constexpr std::string_view kSharedMemoryKind = "rlgen_shm";
inline constexpr size_t kMaxFrameBytes = size_t(64) << 20;

// "bfloat16 [576, 1536]".
std::string ipc_layout(DType dtype, const Shape& shape);

// Reads a message pickled with any protocol from 2 to 5. kInvalidArgument says what is wrong and at
// which byte, for another shape, an opcode that the shapes do not need, a buffer of another kind (a
// GPU's handle), a size below 0, layouts of more or fewer tensors than there are names.
StatusOr<IpcFrame> read_frame(std::span<const std::byte> bytes);

// The message in protocol 4.
std::string write_frame(const IpcFrame& frame);

}  // namespace rlgen::refit
