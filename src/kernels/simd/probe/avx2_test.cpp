#include "kernels/simd/f32x16_avx2.h"

#define RLGEN_ISA avx2
#define RLGEN_ISA_NAME "avx2"

#include "kernels/simd/probe/probe_impl.h"
