#pragma once

#include <string>

namespace rlgen::generation {

// Appends the shortest decimal text that reads back as the same float32, also when a reader takes
// it for a double first and rounds then. Always with a point or an exponent, so that a reader of
// JSON sees no integer: "-0.4401897", "0.0", "-0.0", "-1e-06". `value` must be finite.
void append_float(float value, std::string* out);

}  // namespace rlgen::generation
