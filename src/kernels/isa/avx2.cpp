#include "kernels/simd/f32x16_avx2.h"

#define RLGEN_ISA avx2
#define RLGEN_ISA_ENUM kAvx2

#include "kernels/isa/table_impl.h"
