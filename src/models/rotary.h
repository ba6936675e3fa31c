#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config_reader.h"
#include "models/decoder_spec.h"

namespace rlgen::models {

enum class RotaryKind { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongrope };

// What a configuration says of its rotary embedding, checked, all defaults filled in.
struct RotaryParameters {
  RotaryKind kind = RotaryKind::kDefault;
  double theta = 10000.0;
  int32_t dim = 0;           // rotated elements of a head, even
  int32_t max_position = 0;  // max_position_embeddings
  double factor = 1.0;
  // original_max_position_embeddings: the context before it was stretched.
  int32_t original = 0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  std::optional<double> mscale, mscale_all_dim;          // yarn
  bool truncate = true;                                  // yarn
  std::optional<double> attention_factor;                // yarn, longrope
  std::vector<double> short_factor, long_factor;         // longrope, dim / 2 each
};

struct RotaryShape {
  int32_t head_dim = 0;
  int32_t max_position = 0;
  double default_theta = 10000.0;
};

// Reads `rope_scaling` (with `type` or `rope_type`) or `rope_parameters`, and `rope_theta` and
// `original_max_position_embeddings` inside or at top level. Errors go to the reader: two places
// that disagree, an unknown type (kUnimplemented), a value out of range, a missing factor.
RotaryParameters read_rotary(ConfigReader& config, const RotaryShape& shape);

// The frequencies for sequences of up to `context` tokens, whatever their length so far. Formulas
// of Transformers 5 (modeling_rope_utils.py), in float32 where it uses float32:
//   default   f_i = 1 / theta^(2i / dim)
//   linear    f_i / factor
//   dynamic   theta * (factor * L / max_position - (factor - 1))^(dim / (dim - 2)) as theta, with
//             L = max(context, max_position)
//   llama3    f_i where its wavelength is below original / high_freq_factor, f_i / factor where it
//             is above original / low_freq_factor, a blend between
//   yarn      blend of f_i / factor and f_i over a ramp of dimensions ("YaRN", Peng et al. 2023)
//   longrope  f_i / long_factor[i] where context > original, else f_i / short_factor[i]
// attention_factor is 1 but for yarn (ratio of the two mscale terms, or 0.1 ln(factor) + 1) and
// longrope (sqrt(1 + ln(factor) / ln(original))), where the configuration gives none.
RotarySpec resolve_rotary(const RotaryParameters& parameters, int32_t context);

// What yarn multiplies the scores of attention with in models that know `mscale_all_dim`
// (DeepSeek-V2 and V3): (0.1 mscale_all_dim ln(factor) + 1) squared. 1 for any other scaling and
// where it is 0 or not given.
double yarn_score_factor(const RotaryParameters& parameters);

// The longest context that these parameters allow: max_position; for linear and yarn what the
// factor stretches it to; for dynamic, which is defined for any length, kMaxContext.
inline constexpr int32_t kMaxContext = 1 << 24;  // positions stay exact in float32
int32_t longest_context(const RotaryParameters& parameters);

// "default", "linear", "dynamic@8192", ...: the scaling, with the context where it depends on it.
std::string rotary_name(const RotaryParameters& parameters, int32_t context);

}  // namespace rlgen::models
