#include "text/utf8_cutter.h"

namespace rlgen::text {

Utf8State::Step Utf8State::begin(uint8_t byte) {
  low_ = 0x80;
  high_ = 0xBF;
  if (byte < 0x80) return Step::kComplete;
  if (byte < 0xC2 || byte > 0xF4) return Step::kIllFormed;
  missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  if (byte == 0xE0) low_ = 0xA0;
  if (byte == 0xED) high_ = 0x9F;
  if (byte == 0xF0) low_ = 0x90;
  if (byte == 0xF4) high_ = 0x8F;
  return Step::kPartial;
}

Utf8State::Step Utf8State::take(uint8_t byte) {
  if (missing_ == 0) return begin(byte);
  if (byte < low_ || byte > high_) {
    missing_ = 0;
    return Step::kBrokenOff;
  }
  low_ = 0x80;
  high_ = 0xBF;
  return --missing_ == 0 ? Step::kComplete : Step::kPartial;
}

void Utf8Cutter::push(std::string_view bytes, std::string& out) {
  for (std::size_t i = 0; i < bytes.size();) {
    const char byte = bytes[i];
    switch (state_.take(static_cast<uint8_t>(byte))) {
      case Utf8State::Step::kComplete:
        out += open_;
        out += byte;
        open_.clear();
        ++i;
        break;
      case Utf8State::Step::kPartial:
        open_ += byte;
        ++i;
        break;
      case Utf8State::Step::kIllFormed:
        out += kReplacement;
        ++i;
        break;
      case Utf8State::Step::kBrokenOff:
        out += kReplacement;
        open_.clear();
        break;
    }
  }
}

void Utf8Cutter::finish(std::string& out) {
  if (!open_.empty()) out += kReplacement;
  open_.clear();
  state_ = Utf8State();
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Cutter cutter;
  cutter.push(bytes, out);
  cutter.finish(out);
  return out;
}

}  // namespace rlgen::text
