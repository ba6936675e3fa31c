#include "kernels/simd/f32x16_neon.h"

#define RLGEN_ISA neon
#define RLGEN_ISA_ENUM kNeon

#include "kernels/isa/table_impl.h"
