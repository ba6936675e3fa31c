#include "kernels/simd/f32x16_scalar.h"

#define RLGEN_ISA scalar
#define RLGEN_ISA_NAME "scalar"

#include "kernels/simd/probe/probe_impl.h"
