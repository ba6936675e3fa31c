#include "generation/float_text.h"

#include <array>
#include <charconv>
#include <string_view>

namespace rlgen::generation {

void append_float(float value, std::string* out) {
  std::array<char, 64> text;
  char* const begin = text.data();
  char* end = std::to_chars(begin, begin + text.size(), value).ptr;
  double read = 0.0;
  std::from_chars(begin, end, read);
  // A short text next to the middle of two floats can round twice on its way back.
  if (static_cast<float>(read) != value) {
    end = std::to_chars(begin, begin + text.size(), static_cast<double>(value)).ptr;
  }
  const std::string_view written(begin, static_cast<size_t>(end - begin));
  out->append(written);
  if (written.find_first_of(".e") == std::string_view::npos) out->append(".0");
}

}  // namespace rlgen::generation
