#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"

namespace rlgen::kernels {

// The arithmetic of products (docs/numbers.md). Everything else is float32 in all of them.
enum class Profile {
  kFloat32,      // nothing is rounded on the way
  kBFloat16,     // operands are rounded to bfloat16; weights must be bfloat16
  kBFloat16Amx,  // likewise, with the sums of AMX
};
inline constexpr Profile kProfiles[] = {Profile::kFloat32, Profile::kBFloat16,
                                        Profile::kBFloat16Amx};

// "float32", "bfloat16", "bfloat16_amx".
std::string_view profile_name(Profile profile);
// Nothing for any other name.
std::optional<Profile> parse_profile(std::string_view name);

// What the operands of its products are rounded to.
DType operand_dtype(Profile profile);

// The kernels of a profile whose operands are rounded.
const RoundedKernels& rounded_kernels(const KernelTable& table, Profile profile);

// Counts changes of its rules in docs/numbers.md: results of two revisions never mix.
int32_t arithmetic_revision(Profile profile);

// What a threaded operation runs on. Borrowed; one user at a time.
struct KernelContext {
  const KernelTable* table = nullptr;
  ThreadPool* pool = nullptr;
  Profile profile = Profile::kFloat32;
};

// Rows [row, row + rows) and columns [column, column + columns) of a product y.
struct OutputBlock {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// Called with each block of y once, on the thread that made it, right after.
using Finish = absl::FunctionRef<void(const OutputBlock&)>;

// LinearArgs over all column tiles, split over threads along n and m, never k.
void linear(const KernelContext& context, const LinearArgs& args);

// The same, and `finish` of every block. Blocks begin at multiples of `unit` columns, and all but
// the last end at one.
void linear(const KernelContext& context, const LinearArgs& args, int64_t unit, Finish finish);

// The same, and sum[r, :] += y[r, :]; sum has the row stride of y.
void linear_add(const KernelContext& context, const LinearArgs& args, float* sum);

// Rows [row, row + rows) of a grouped product, and what they meet.
struct RowGroup {
  PackedMatrix w;               // [n, k]
  const float* bias = nullptr;  // [n] or null
  int64_t row = 0;
  int64_t rows = 0;
  // Where its first row of y goes, the next ones ldy further on each; null: to row `row` of
  // GroupedArgs::y.
  float* y = nullptr;
};

// LinearArgs in which each group of rows has a matrix of its own: row r of y is row source[r] of x
// times the matrix of r's group. A row's bits are those of LinearArgs with that row alone.
struct GroupedArgs {
  const float* x = nullptr;  // row stride ldx elements
  int64_t ldx = 0;
  const int32_t* source = nullptr;   // [m], rows of x; null: row r of x
  std::span<const RowGroup> groups;  // of one n and k; together the rows 0 .. m - 1, in order
  float* y = nullptr;                // [m, n], row stride ldy elements
  int64_t ldy = 0;
  int64_t m = 0;
};

// All groups in one run of the pool, split along groups, n and rows, never k.
void grouped_linear(const KernelContext& context, const GroupedArgs& args);

// rms_norm of `rows` rows of n elements.
void rms_norm(const KernelContext& context, const float* x, int64_t rows, int64_t n,
              const float* weight, float eps, float* out);

enum class Activation {
  kSilu,           // silu(gate) * up
  kGeluTanh,       // gelu_tanh(gate) * up
  kClampedSwiglu,  // KernelTable::clamped_swiglu
};

// What a gated layer makes of gate and up.
struct Gating {
  Activation activation = Activation::kSilu;
  float alpha = 0.0f;  // of kClampedSwiglu
  float limit = 0.0f;  // likewise
};

// LinearArgs of 2n columns, gate and up, and out[r, :] = what `gating` makes of y[r, 0:n] and
// y[r, n:2n], contiguous rows of n. y itself is not kept: `args` needs none.
void gated_linear(const KernelContext& context, const LinearArgs& args, const Gating& gating,
                  float* out);

// The same of a grouped product.
void grouped_gated_linear(const KernelContext& context, const GroupedArgs& args,
                          const Gating& gating, float* out);

// Whether attention over such a cache has the products of a profile that rounds: keys and values in
// bfloat16, each with memory of its own.
bool attention_rounds(Profile profile, const KvLayout& layout);

// Attention of every sequence of a step. Scratch is kept in the context's threads.
void attention(const KernelContext& context, const AttentionArgs& args,
               std::span<const AttentionSequence> sequences);

}  // namespace rlgen::kernels
