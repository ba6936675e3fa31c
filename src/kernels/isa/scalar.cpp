#include "kernels/simd/f32x16_scalar.h"

#define RLGEN_ISA scalar
#define RLGEN_ISA_ENUM kScalar

#include "kernels/isa/table_impl.h"
