#pragma once

// Kernel code of one instruction set must never be shared with another, so every function of the
// vector types has internal linkage and is inlined whatever the optimisation level.
#define RLGEN_INLINE [[maybe_unused, gnu::always_inline]] static inline

// Before a loop with a constant count: no loop is left.
#if defined(__clang__)
#define RLGEN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define RLGEN_UNROLL _Pragma("GCC unroll 32")
#endif
