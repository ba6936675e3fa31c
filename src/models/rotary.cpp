#include "models/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/math.h"

namespace rlgen::models {
namespace {

constexpr double kPi = 3.14159265358979323846;

// base^(2i / dim) for every pair, in float32 but for the power itself.
std::vector<float> powers_of(double base, int32_t dim) {
  std::vector<float> powers(size_t(dim / 2));
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = float(2 * i) / float(dim);
    powers[i] = float(kernels::pow_of(double(float(base)), double(exponent)));
  }
  return powers;
}

std::vector<float> inverse(std::vector<float> values) {
  for (float& value : values) value = 1.0f / value;
  return values;
}

std::vector<float> linear(const RotaryParameters& p) {
  std::vector<float> freq = inverse(powers_of(p.theta, p.dim));
  for (float& f : freq) f /= float(p.factor);
  return freq;
}

std::vector<float> dynamic(const RotaryParameters& p, int32_t context) {
  const double length = std::max(context, p.max_position);
  const double stretch = p.factor * length / p.max_position - (p.factor - 1.0);
  const double exponent = double(p.dim) / (p.dim - 2);
  return inverse(powers_of(p.theta * kernels::pow_of(stretch, exponent), p.dim));
}

std::vector<float> llama3(const RotaryParameters& p) {
  const auto factor = float(p.factor);
  const auto low = float(p.low_freq_factor);
  const auto span = float(p.high_freq_factor - p.low_freq_factor);
  const auto longest = float(p.original / p.low_freq_factor);
  const auto shortest = float(p.original / p.high_freq_factor);
  std::vector<float> freq = inverse(powers_of(p.theta, p.dim));
  for (float& f : freq) {
    const float wavelength = float(2.0 * kPi) / f;
    if (wavelength > longest) {
      f = f / factor;
    } else if (!(wavelength < shortest)) {
      const float smooth = (float(p.original) / wavelength - low) / span;
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return freq;
}

// The dimension whose frequency turns `rotations` times over the original context.
double correction_dim(const RotaryParameters& p, double rotations) {
  return p.dim * kernels::log_of(p.original / (rotations * 2.0 * kPi)) /
         (2.0 * kernels::log_of(p.theta));
}

std::vector<float> yarn(const RotaryParameters& p) {
  double low = correction_dim(p, p.beta_fast);
  double high = correction_dim(p, p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(p.dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> freq = powers_of(p.theta, p.dim);
  for (size_t i = 0; i < freq.size(); ++i) {
    const float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float stretched = 1.0f / (float(p.factor) * freq[i]);
    freq[i] = stretched * (1.0f - keep) + (1.0f / freq[i]) * keep;
  }
  return freq;
}

std::vector<float> longrope(const RotaryParameters& p, int32_t context) {
  const std::vector<double>& factors = context > p.original ? p.long_factor : p.short_factor;
  std::vector<float> freq = powers_of(p.theta, p.dim);
  for (size_t i = 0; i < freq.size(); ++i) freq[i] = 1.0f / (float(factors[i]) * freq[i]);
  return freq;
}

std::vector<float> frequencies(const RotaryParameters& p, int32_t context) {
  switch (p.kind) {
    case RotaryKind::kDefault:
      break;
    case RotaryKind::kLinear:
      return linear(p);
    case RotaryKind::kDynamic:
      return dynamic(p, context);
    case RotaryKind::kLlama3:
      return llama3(p);
    case RotaryKind::kYarn:
      return yarn(p);
    case RotaryKind::kLongrope:
      return longrope(p, context);
  }
  return inverse(powers_of(p.theta, p.dim));
}

double mscale_term(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * kernels::log_of(factor) + 1.0;
}

double attention_factor_of(const RotaryParameters& p) {
  if (p.kind == RotaryKind::kYarn) {
    if (p.attention_factor) return *p.attention_factor;
    const bool both = p.mscale.value_or(0.0) != 0.0 && p.mscale_all_dim.value_or(0.0) != 0.0;
    if (!both) return mscale_term(p.factor, 1.0);
    return mscale_term(p.factor, *p.mscale) / mscale_term(p.factor, *p.mscale_all_dim);
  }
  if (p.kind == RotaryKind::kLongrope) {
    if (p.attention_factor) return *p.attention_factor;
    if (p.factor <= 1.0) return 1.0;
    return std::sqrt(1.0 + kernels::log_of(p.factor) / kernels::log_of(p.original));
  }
  return 1.0;
}

std::string_view kind_name(RotaryKind kind) {
  constexpr std::string_view kNames[] = {"default", "linear", "dynamic",
                                         "llama3",  "yarn",   "longrope"};
  return kNames[size_t(kind)];
}

}  // namespace

RotarySpec resolve_rotary(const RotaryParameters& parameters, int32_t context) {
  return {std::string(kind_name(parameters.kind)), frequencies(parameters, context),
          float(attention_factor_of(parameters))};
}

double yarn_score_factor(const RotaryParameters& p) {
  if (p.kind != RotaryKind::kYarn || p.mscale_all_dim.value_or(0.0) == 0.0) return 1.0;
  const double term = mscale_term(p.factor, *p.mscale_all_dim);
  return term * term;
}

int32_t longest_context(const RotaryParameters& p) {
  const auto stretched = [&](int32_t length) {
    return int32_t(std::min(length * std::max(p.factor, 1.0), double(kMaxContext)));
  };
  if (p.kind == RotaryKind::kDynamic) return kMaxContext;
  if (p.kind == RotaryKind::kLinear) return stretched(p.max_position);
  if (p.kind == RotaryKind::kYarn) return std::max(p.max_position, stretched(p.original));
  return p.max_position;
}

std::string rotary_name(const RotaryParameters& parameters, int32_t context) {
  const std::string_view name = kind_name(parameters.kind);
  const bool by_length =
      parameters.kind == RotaryKind::kDynamic || parameters.kind == RotaryKind::kLongrope;
  return by_length ? fmt::format("{}@{}", name, context) : std::string(name);
}

}  // namespace rlgen::models
