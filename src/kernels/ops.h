#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace rlgen::kernels {

// What a threaded operation runs on. Borrowed; one user at a time.
struct KernelContext {
  const KernelTable* table = nullptr;
  ThreadPool* pool = nullptr;
};

// LinearArgs over all column tiles, split over threads along n and m, never k.
void linear(const KernelContext& context, const LinearArgs& args);

// rms_norm of `rows` rows of n elements.
void rms_norm(const KernelContext& context, const float* x, int64_t rows, int64_t n,
              const float* weight, float eps, float* out);

// x[r, :] += y[r, :], contiguous rows.
void add(const KernelContext& context, float* x, const float* y, int64_t rows, int64_t n);

enum class Activation { kSilu, kGeluTanh };

// out[r, :] = act(gate_up[r, 0:n]) * gate_up[r, n:2n].
void gated_activation(const KernelContext& context, Activation activation, const float* gate_up,
                      int64_t rows, int64_t n, float* out);

// Attention of every sequence of a step. Scratch is kept in the context's threads.
void attention(const KernelContext& context, const AttentionArgs& args,
               std::span<const AttentionSequence> sequences);

}  // namespace rlgen::kernels
