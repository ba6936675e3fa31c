#include "kernels/simd/f32x16_avx512.h"

#define RLGEN_ISA avx512
#define RLGEN_ISA_ENUM kAvx512

#include "kernels/isa/table_impl.h"
