#include "kernels/simd/f32x16_avx512.h"

#define RLGEN_ISA avx512
#define RLGEN_ISA_NAME "avx512"

#include "kernels/simd/probe/probe_impl.h"
