#include "kernels/simd/f32x16_neon.h"

#define RLGEN_ISA neon
#define RLGEN_ISA_NAME "neon"

#include "kernels/simd/probe/probe_impl.h"
