#include "kernels/ops.h"

#include <algorithm>
#include <vector>

namespace rlgen::kernels {
namespace {

// What a run on the pool must be worth: waking a thread costs a few microseconds.
constexpr int64_t kSplitNanoseconds = 3000;
// Above this time for each thread, more parts than threads even out what others do to a core.
constexpr int64_t kFinePartsNanoseconds = 100000;
constexpr int64_t kFineParts = 4;
// Rows of x that stay in an L2 cache of 1 MiB beside the weights: 256 rows, 256 deep, are 256 KiB.
constexpr int64_t kLinearRowBlock = 256;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t parts_for(int64_t nanoseconds, int64_t threads) {
  if (threads == 1) return 1;
  if (nanoseconds / threads > kFinePartsNanoseconds) return threads * kFineParts;
  return std::clamp<int64_t>(nanoseconds / kSplitNanoseconds, 1, threads);
}

// The longer of the arithmetic at 100 products and the reading at 40 bytes a nanosecond, which one
// core with AVX-512 does.
int64_t linear_nanoseconds(const LinearArgs& args) {
  const int64_t weights = args.w.n * args.w.k;
  return std::max(args.m * weights / 100, weights * size_of(args.w.dtype) / 40);
}

// Column tiles that the kernels work on together divide this, whatever the instruction set.
int64_t tile_unit(int64_t rows) { return rows <= 3 ? 8 : rows <= 6 ? 4 : 2; }

LinearArgs rows_of(const LinearArgs& args, int64_t begin, int64_t end) {
  LinearArgs part = args;
  part.x += begin * args.ldx;
  part.y += begin * args.ldy;
  part.m = end - begin;
  return part;
}

// Runs fn(begin, end) over parts of [0, rows), each of `elements` or more in all.
template <typename F>
void for_row_ranges(const KernelContext& context, int64_t rows, int64_t row_elements,
                    int64_t elements, F fn) {
  const int64_t most = std::max<int64_t>(1, rows * row_elements / elements);
  const int64_t parts = std::min({most, rows, int64_t(context.pool->num_threads())});
  context.pool->run(parts,
                    [&](int64_t part, int) { fn(rows * part / parts, rows * (part + 1) / parts); });
}

// Rows of one attention task; a sequence's later rows see more keys and come first.
constexpr int64_t kAttentionRows = 32;

std::vector<AttentionTask> attention_tasks(const AttentionArgs& args,
                                           std::span<const AttentionSequence> sequences) {
  std::vector<AttentionTask> tasks;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t end = sequences[s].rows; end > 0; end -= kAttentionRows) {
      for (int32_t kv_head = 0; kv_head < args.kv.layout.kv_heads; ++kv_head) {
        tasks.push_back({.sequence = int32_t(s),
                         .kv_head = kv_head,
                         .row_begin = std::max<int64_t>(0, end - kAttentionRows),
                         .row_end = end});
      }
    }
  }
  return tasks;
}

// At least `size` floats that belong to the calling thread until it ends.
float* thread_scratch(int64_t size) {
  thread_local std::vector<float> scratch;
  if (int64_t(scratch.size()) < size) scratch.resize(size_t(size));
  return scratch.data();
}

}  // namespace

void linear(const KernelContext& context, const LinearArgs& args) {
  if (args.m <= 0) return;
  const int64_t tiles = divide_up(args.w.n, 16);
  const int64_t row_blocks = divide_up(args.m, kLinearRowBlock);
  const int64_t parts = parts_for(linear_nanoseconds(args), context.pool->num_threads());
  const int64_t unit = tile_unit(args.m);
  const int64_t units = divide_up(tiles, unit);
  const int64_t chunks = std::clamp<int64_t>(divide_up(parts, row_blocks), 1, units);
  context.pool->run(chunks * row_blocks, [&](int64_t task, int) {
    const int64_t chunk = task / row_blocks;
    const int64_t block = task % row_blocks;
    const LinearArgs rows =
        rows_of(args, args.m * block / row_blocks, args.m * (block + 1) / row_blocks);
    context.table->linear(rows, units * chunk / chunks * unit,
                          std::min(tiles, units * (chunk + 1) / chunks * unit));
  });
}

void rms_norm(const KernelContext& context, const float* x, int64_t rows, int64_t n,
              const float* weight, float eps, float* out) {
  for_row_ranges(context, rows, n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      context.table->rms_norm(x + r * n, weight, n, eps, out + r * n);
    }
  });
}

void add(const KernelContext& context, float* x, const float* y, int64_t rows, int64_t n) {
  for_row_ranges(context, rows, n, 1 << 15, [&](int64_t begin, int64_t end) {
    context.table->add(x + begin * n, y + begin * n, (end - begin) * n);
  });
}

void gated_activation(const KernelContext& context, Activation activation, const float* gate_up,
                      int64_t rows, int64_t n, float* out) {
  const auto kernel =
      activation == Activation::kSilu ? context.table->silu_mul : context.table->gelu_tanh_mul;
  for_row_ranges(context, rows, n, 1 << 13, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* gate = gate_up + r * 2 * n;
      kernel(gate, gate + n, n, out + r * n);
    }
  });
}

void attention(const KernelContext& context, const AttentionArgs& args,
               std::span<const AttentionSequence> sequences) {
  const std::vector<AttentionTask> tasks = attention_tasks(args, sequences);
  context.pool->run(int64_t(tasks.size()), [&](int64_t i, int) {
    const AttentionTask& task = tasks[size_t(i)];
    const int64_t rows = task.row_end - task.row_begin;
    float* scratch = thread_scratch(context.table->attention_scratch(args, rows));
    context.table->attention(args, sequences[size_t(task.sequence)], task, scratch);
  });
}

}  // namespace rlgen::kernels
