#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"
#include "generation/prompt_line.h"

// A line that is accepted has an id, and one that is not still gets one to report it under; both
// are text that can be written out again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto prompt = rlgen::generation::parse_prompt_line(line, 7, rlgen::SamplingParams{});
  const std::string id = prompt.ok() ? prompt->id : rlgen::generation::id_of_bad_line(line, 7);
  if (rlgen::first_invalid_utf8(id)) __builtin_trap();
  if (!prompt.ok() && prompt.status().message().empty()) __builtin_trap();
  return 0;
}
