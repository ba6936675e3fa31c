#include "text/whitespace.h"

#include <cstdint>

namespace rlgen::text {
namespace {

std::size_t character_length(uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

bool is_whitespace(std::string_view character) {
  if (character.size() == 1) {
    return character[0] == ' ' || (character[0] >= '\t' && character[0] <= '\r');
  }
  if (character.size() == 2) return character == "\u0085" || character == "\u00a0";
  return (character >= "\u2000" && character <= "\u200a") || character == "\u1680" ||
         character == "\u2028" || character == "\u2029" || character == "\u202f" ||
         character == "\u205f" || character == "\u3000";
}

}  // namespace

WhitespaceRun longest_whitespace_run(std::string_view text) {
  WhitespaceRun longest;
  WhitespaceRun current;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(static_cast<uint8_t>(text[i]));
    if (is_whitespace(text.substr(i, length))) {
      if (current.characters == 0) current.offset = i;
      if (++current.characters > longest.characters) longest = current;
    } else {
      current.characters = 0;
    }
    i += length;
  }
  return longest;
}

}  // namespace rlgen::text
