#include "base/utf8.h"

namespace rlgen {
namespace {

struct Lead {
  int length = 0;  // bytes of the whole character; 0: no lead byte
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xbf;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// Bytes of the well-formed character at the front of `text` (not empty); 0 when there is none.
std::size_t character_length(std::string_view text) {
  const Lead lead = classify(static_cast<unsigned char>(text[0]));
  const auto length = static_cast<std::size_t>(lead.length);
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xbf;
    if (byte < low || byte > high) return 0;
  }
  return length;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = character_length(text.substr(offset));
    if (length == 0) return offset;
    offset += length;
  }
  return std::nullopt;
}

}  // namespace rlgen
