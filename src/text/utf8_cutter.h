#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rlgen::text {

// U+FFFD in UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Reads UTF-8 byte by byte (Unicode 15, table 3-7).
class Utf8State {
 public:
  enum class Step {
    kComplete,   // the byte ends a character
    kPartial,    // the byte belongs to a character that is not complete
    kIllFormed,  // the byte belongs to no character; nothing is open
    kBrokenOff,  // what was open cannot be continued by this byte, which was not taken
  };
  Step take(uint8_t byte);
  // True between characters.
  bool at_boundary() const { return missing_ == 0; }

 private:
  Step begin(uint8_t byte);

  int missing_ = 0;     // bytes that the open character still needs
  uint8_t low_ = 0x80;  // bounds of the next byte
  uint8_t high_ = 0xBF;
};

// Turns a stream of bytes into valid UTF-8 that never ends inside a character. Ill-formed bytes
// become U+FFFD, one for each maximal subpart (Unicode 15, section 3.9): joined, the pieces equal
// the lossy decoding of all bytes at once.
class Utf8Cutter {
 public:
  // Appends the text that `bytes` completes to `out`.
  void push(std::string_view bytes, std::string& out);
  // Ends the stream: an open character becomes one U+FFFD.
  void finish(std::string& out);

 private:
  Utf8State state_;
  std::string open_;  // at most 3 bytes
};

// The lossy decoding of `bytes` at once.
std::string lossy_utf8(std::string_view bytes);

}  // namespace rlgen::text
