#include "kernels/math.h"
#include "kernels/shared.h"

namespace rlgen::kernels::shared {

void rope_angles(int64_t position, const float* inv_freq, int64_t n, float scale, float* cos,
                 float* sin) {
  for (int64_t i = 0; i < n; ++i) {
    const float angle = float(position) * inv_freq[i];
    cos[i] = float(cos_of(angle)) * scale;
    sin[i] = float(sin_of(angle)) * scale;
  }
}

}  // namespace rlgen::kernels::shared
