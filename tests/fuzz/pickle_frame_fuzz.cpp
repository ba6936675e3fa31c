#include <cstddef>
#include <cstdint>
#include <span>

#include "refit/pickle_frame.h"

// A message that is accepted can be written again and reads the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto frame = rlgen::refit::read_frame(std::as_bytes(std::span(data, size)));
  if (!frame.ok()) {
    if (frame.status().message().empty()) __builtin_trap();
    return 0;
  }
  const std::string bytes = rlgen::refit::write_frame(*frame);
  const auto again = rlgen::refit::read_frame(std::as_bytes(std::span(bytes)));
  if (!again.ok() || !(*again == *frame)) __builtin_trap();
  return 0;
}
