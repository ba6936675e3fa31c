#include "kernels/selftest.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/float_mode.h"
#include "kernels/math.h"
#include "kernels/moe.h"
#include "kernels/ops.h"
#include "kernels/sampling.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

using Floats = std::vector<float>;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Input that depends on nothing but the order of the calls.
class Input {
 public:
  float between(float low, float high) {
    return low + (high - low) * static_cast<float>(uniform(20261129, 0, position_++));
  }
  Floats floats(int64_t count, float low = -1.0f, float high = 1.0f) {
    Floats all(static_cast<size_t>(count));
    for (float& x : all) x = between(low, high);
    return all;
  }
  // Bytes of `count` elements of `dtype`.
  std::vector<std::byte> stored(DType dtype, int64_t count) {
    std::vector<std::byte> bytes(static_cast<size_t>(count * size_of(dtype)));
    for (int64_t i = 0; i < count; ++i) {
      const float value = between(-1.0f, 1.0f);
      const uint16_t half =
          dtype == DType::kBFloat16 ? bf16_from_float(value) : f16_from_float(value);
      const auto* from = dtype == DType::kFloat32 ? reinterpret_cast<const std::byte*>(&value)
                                                  : reinterpret_cast<const std::byte*>(&half);
      std::copy(from, from + size_of(dtype), bytes.begin() + i * size_of(dtype));
    }
    return bytes;
  }

 private:
  uint64_t position_ = 0;
};

template <typename T>
void take(DigestStream& stream, const std::vector<T>& values) {
  stream.update(std::as_bytes(std::span(values)));
}

template <typename T>
void take(DigestStream& stream, T value) {
  stream.update(std::as_bytes(std::span(&value, 1)));
}

void linear_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int64_t kN = 150;
  constexpr int64_t kK = 301;
  for (const DType dtype : kTypes) {
    const auto weights = input.stored(dtype, kN * kK);
    std::vector<std::byte> packed(packed_bytes(dtype, kN, kK));
    pack_rows(packed.data(), dtype, kN, kK, 0, kN, weights.data());
    const PackedMatrix w{packed.data(), dtype, kN, kK};
    for (const int64_t m : {1, 5, 12, 29}) {
      const Floats x = input.floats(m * kK, -3.0f, 3.0f);
      const Floats bias = input.floats(kN);
      Floats y(static_cast<size_t>(m * kN));
      table.linear({.x = x.data(),
                    .ldx = kK,
                    .w = w,
                    .bias = m == 5 ? nullptr : bias.data(),
                    .y = y.data(),
                    .ldy = kN,
                    .m = m},
                   0, (kN + 15) / 16);
      take(stream, y);
    }
    Floats row(kK);
    table.gather_row(w, 77, row.data());
    take(stream, row);
  }
}

// The product of a profile that rounds, of ordinary numbers and of some whose products are
// subnormal.
void linear_rounded_part(const KernelTable& table, Profile profile, Input& input,
                         DigestStream& stream) {
  const RoundedKernels& kernels = rounded_kernels(table, profile);
  constexpr int64_t kN = 150;
  constexpr int64_t kK = 301;
  constexpr int64_t kOperand = rounded_length(kK);
  for (const float scale : {1.0f, 0x1p-63f}) {
    auto weights = input.stored(DType::kBFloat16, kN * kK);
    for (int64_t i = 0; i < kN * kK; ++i) {
      uint16_t half = 0;
      std::memcpy(&half, &weights[static_cast<size_t>(2 * i)], sizeof half);
      half = bf16_from_float(float_from_bf16(half) * scale);
      std::memcpy(&weights[static_cast<size_t>(2 * i)], &half, sizeof half);
    }
    std::vector<std::byte> packed(packed_bytes(DType::kBFloat16, kN, kK));
    pack_rows(packed.data(), DType::kBFloat16, kN, kK, 0, kN, weights.data());
    for (const int64_t m : {1, 5, 12, 29, 70}) {
      const Floats x = input.floats(m * kK, -3.0f * scale, 3.0f * scale);
      Floats operand(static_cast<size_t>(m * kOperand));
      for (int64_t row = 0; row < m; ++row) {
        kernels.operand(&x[static_cast<size_t>(row * kK)], kK,
                        &operand[static_cast<size_t>(row * kOperand)]);
      }
      Floats y(static_cast<size_t>(m * kN));
      const ScopedFloatMode flush(FloatMode::kFlush);
      kernels.linear({.x = operand.data(),
                      .ldx = kOperand,
                      .w = {packed.data(), DType::kBFloat16, kN, kK},
                      .y = y.data(),
                      .ldy = kN,
                      .m = m},
                     0, (kN + 15) / 16);
      take(stream, y);
    }
  }
}

void elementwise_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int64_t kCount = 1003;
  Floats x = input.floats(kCount, -90.0f, 90.0f);
  const Floats y = input.floats(kCount, -2.0f, 2.0f);
  Floats out(kCount);
  table.rms_norm(x.data(), y.data(), kCount, 1e-5f, out.data());
  take(stream, out);
  table.silu_mul(x.data(), y.data(), kCount, out.data());
  take(stream, out);
  table.gelu_tanh_mul(y.data(), x.data(), kCount, out.data());
  take(stream, out);
  table.clamped_swiglu(y.data(), x.data(), kCount, 1.702f, 1.5f, out.data());
  take(stream, out);
  table.add(x.data(), y.data(), kCount);
  take(stream, x);
}

void rope_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int64_t kHalf = 33;
  Floats inv_freq(kHalf);
  for (int64_t i = 0; i < kHalf; ++i) {
    inv_freq[static_cast<size_t>(i)] =
        static_cast<float>(pow_of(500000.0, -static_cast<double>(i) / kHalf));
  }
  for (const int64_t position : {0, 1, 4095, 131071}) {
    Floats cos(kHalf);
    Floats sin(kHalf);
    table.rope_angles(position, inv_freq.data(), kHalf, 1.1f, cos.data(), sin.data());
    Floats x = input.floats(2 * kHalf);
    table.rope(x.data(), kHalf, cos.data(), sin.data());
    take(stream, cos);
    take(stream, sin);
    take(stream, x);
  }
}

// Keys in blocks in no order, three heads that share them, the last rows of the sequence.
void attention_over(const KernelTable& table, const KvLayout& layout, Profile profile, Input& input,
                    DigestStream& stream) {
  constexpr int32_t kBlocks = 40;
  constexpr int32_t kKeys = 16 * kBlocks;
  constexpr int64_t kRows = 21;
  std::vector<std::byte> memory(layout.block_stride() * kBlocks);
  const KvCacheView kv{memory.data(), layout};
  std::vector<int32_t> blocks(kBlocks);
  for (int32_t b = 0; b < kBlocks; ++b) blocks[static_cast<size_t>(b)] = (b * 7 + 3) % kBlocks;
  for (int32_t key = 0; key < kKeys; ++key) {
    const Floats k = input.floats(layout.head_dim);
    const Floats v = input.floats(layout.value_dim);
    table.store_kv(layout, kv.head(blocks[static_cast<size_t>(key / 16)], 0, 0), key % 16, k.data(),
                   v.data());
  }
  const Floats q = input.floats(kRows * 3 * layout.head_dim, -4.0f, 4.0f);
  const Floats sinks = input.floats(3, -4.0f, 4.0f);
  for (const auto& [window, sink] : {std::pair{0, false}, {100, false}, {100, true}}) {
    Floats out(static_cast<size_t>(kRows * 3 * layout.value_dim));
    const AttentionArgs args{.q = q.data(),
                             .ldq = 3 * layout.head_dim,
                             .out = out.data(),
                             .ldo = 3 * layout.value_dim,
                             .heads = 3,
                             .kv = kv,
                             .scale = 0.158f,
                             .window = window,
                             .sinks = sink ? sinks.data() : nullptr};
    const AttentionTask task{.row_end = kRows};
    Floats scratch(static_cast<size_t>(table.attention_scratch(args, task)));
    const auto attend =
        profile == Profile::kFloat32 ? table.attention : rounded_kernels(table, profile).attention;
    attend(args, {.block_table = blocks.data(), .rows = kRows, .first_position = kKeys - kRows},
           task, scratch.data());
    take(stream, out);
  }
}

void attention_part(const KernelTable& table, bool values_in_keys, Input& input,
                    DigestStream& stream) {
  for (const DType dtype : kTypes) {
    attention_over(table,
                   {.dtype = dtype,
                    .layers = 1,
                    .kv_heads = 1,
                    .head_dim = 40,
                    .value_dim = values_in_keys ? 34 : 24,
                    .values_in_keys = values_in_keys,
                    .block_size = 16},
                   Profile::kFloat32, input, stream);
  }
}

// With the products of a profile that rounds; widths that tile registers take and do not.
void attention_rounded_part(const KernelTable& table, Profile profile, Input& input,
                            DigestStream& stream) {
  for (const int32_t value_dim : {88, 80}) {
    attention_over(table,
                   {.dtype = DType::kBFloat16,
                    .layers = 1,
                    .kv_heads = 1,
                    .head_dim = 41,
                    .value_dim = value_dim,
                    .block_size = 16},
                   profile, input, stream);
  }
}

void row_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int64_t kCount = 5003;
  Floats logits = input.floats(kCount, -12.0f, 12.0f);
  table.row_divide(logits.data(), kCount, 0.5f, 0.7f);
  take(stream, logits);
  Floats p(kCount);
  std::vector<double> blocks(static_cast<size_t>(row_blocks(kCount)));
  const RowSums sums = table.row_sums(logits.data(), kCount, p.data(), blocks.data());
  take(stream, sums.max);
  take(stream, sums.argmax);
  take(stream, sums.sum);
  take(stream, p);
  take(stream, blocks);
  take(stream, row_logprob(sums, logits[17]));
  const Threshold top_k = top_k_threshold(table, p.data(), kCount, 300);
  const Threshold top_p = top_p_threshold(table, p.data(), kCount, 0.9f, sums.sum);
  const Threshold keep = stricter(top_k, top_p);
  for (const Threshold& t : {top_k, top_p, keep}) {
    take(stream, t.value);
    take(stream, t.last_tie);
  }
  take(stream, table.row_keep(p.data(), kCount, keep, blocks.data()));
  take(stream, p);
  for (uint64_t i = 0; i < 64; ++i) {
    take(stream, draw(p.data(), blocks.data(), kCount, uniform(5, 1, i)));
  }
}

void math_part(Input& input, DigestStream& stream) {
  for (int i = 0; i < 500; ++i) {
    const double x = input.between(-700.0f, 700.0f);
    take(stream, exp_of(x));
    take(stream, log_of(x * x));
    take(stream, pow_of(x * x, static_cast<double>(input.between(-2.0f, 2.0f))));
    take(stream, sin_of(x));
    take(stream, cos_of(x));
  }
}

// Scores with a tie, both ways of weighing, chosen and given experts.
void moe_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int32_t kExperts = 67;
  constexpr int32_t kTopK = 5;
  constexpr int64_t kCount = 1003;
  for (const bool normalize : {false, true}) {
    const RouterRule rule{.experts = kExperts, .top_k = kTopK, .normalize = normalize};
    Floats scores = input.floats(kExperts, -6.0f, 6.0f);
    scores[60] = scores[3];
    Floats scratch(static_cast<size_t>(route_scratch(rule)));
    Floats weights(kTopK);
    for (const int32_t first : {-1, 41}) {
      std::vector<int32_t> ids = {first, 7, 2, 66, 0};
      route_row(table, rule, scores.data(), scratch.data(), ids.data(), weights.data());
      take(stream, ids);
      take(stream, weights);
    }
    take(stream, sigmoid(scores[0]));
    Floats sum = input.floats(kCount);
    const Floats y = input.floats(kCount, -3.0f, 3.0f);
    for (const float weight : weights) table.add_scaled(sum.data(), y.data(), weight, kCount);
    take(stream, sum);
    table.clip(sum.data(), 0.75f, kCount);
    take(stream, sum);
  }
}

// Routers of sigmoids with a bias, and of softmax, in groups.
void router_groups_part(const KernelTable& table, Input& input, DigestStream& stream) {
  constexpr int32_t kExperts = 96;
  const Floats bias = input.floats(kExperts, -0.2f, 0.2f);
  for (const bool sigmoids : {false, true}) {
    const RouterRule rule{.experts = kExperts,
                          .top_k = 6,
                          .normalize = sigmoids,
                          .scores = sigmoids ? RouterScores::kSigmoid : RouterScores::kSoftmax,
                          .choice_bias = sigmoids ? bias.data() : nullptr,
                          .groups = 8,
                          .top_groups = 3,
                          .group_worth = sigmoids ? GroupWorth::kTwoLargest : GroupWorth::kLargest,
                          .scale = 2.5f};
    const Floats scores = input.floats(kExperts, -6.0f, 6.0f);
    Floats scratch(static_cast<size_t>(route_scratch(rule)));
    Floats weights(6);
    std::vector<int32_t> ids(6, -1);
    route_row(table, rule, scores.data(), scratch.data(), ids.data(), weights.data());
    take(stream, ids);
    take(stream, weights);
  }
}

}  // namespace

Digest kernel_digest(const KernelTable& table) {
  const ScopedFloatMode mode(FloatMode::kGradual);
  Input input;
  DigestStream stream;
  linear_part(table, input, stream);
  linear_rounded_part(table, Profile::kBFloat16, input, stream);
  elementwise_part(table, input, stream);
  rope_part(table, input, stream);
  attention_part(table, /*values_in_keys=*/false, input, stream);
  row_part(table, input, stream);
  math_part(input, stream);
  moe_part(table, input, stream);
  attention_part(table, /*values_in_keys=*/true, input, stream);
  router_groups_part(table, input, stream);
  attention_rounded_part(table, Profile::kBFloat16, input, stream);
  linear_rounded_part(table, Profile::kBFloat16Amx, input, stream);
  attention_rounded_part(table, Profile::kBFloat16Amx, input, stream);
  return stream.digest();
}

Status check_kernels(const KernelTable& table) {
  const std::string got = kernel_digest(table).hex();
  if (got == kKernelDigest) return absl::OkStatus();
  return absl::InternalError(fmt::format(
      "kernels of isa '{}' give digest {}, not {}: this build does not compute what others compute",
      isa_name(table.isa), got, kKernelDigest));
}

}  // namespace rlgen::kernels
