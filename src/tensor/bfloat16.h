#pragma once

#include <bit>
#include <cstdint>

// Scalar conversions of the 16-bit float types, kept as std::uint16_t. Integer code only: the
// same bits on every machine and in every float mode.
namespace rlgen {

// Exact.
constexpr float float_from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Round to nearest even; beyond the largest finite value becomes infinity; a NaN keeps its sign
// and leading payload bits and is made quiet.
constexpr std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE binary16, exact; a signalling NaN is made quiet.
constexpr float float_from_f16(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000u) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1fu;
  const std::uint32_t fraction = value & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = fraction == 0 ? 0u : 0x400000u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(fraction) - 21;
  const auto normal_exponent = static_cast<std::uint32_t>(113 - shift);
  return std::bit_cast<float>(sign | (normal_exponent << 23) |
                              (((fraction << shift) & 0x3ffu) << 13));
}

// IEEE binary16, round to nearest even; overflow becomes infinity, small values become subnormal
// or zero; a NaN keeps its sign and leading payload bits and is made quiet.
constexpr std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  // `kept` is the binary16 magnitude cut off at `drop` bits; the carry of the rounding may run
  // into the exponent, which is then right as it stands.
  std::uint32_t kept = 0;
  std::uint32_t significand = 0;
  int drop = 13;
  if (magnitude >= 0x38800000u) {
    significand = magnitude;
    kept = (magnitude - 0x38000000u) >> 13;
  } else {
    drop = 126 - static_cast<int>(magnitude >> 23);
    if (drop > 24) return sign;
    significand = (magnitude & 0x7fffffu) | 0x800000u;
    kept = significand >> drop;
  }
  const std::uint32_t rest = significand & ((1u << drop) - 1);
  const std::uint32_t half = 1u << (drop - 1);
  if (rest > half || (rest == half && (kept & 1u) != 0)) ++kept;
  return static_cast<std::uint16_t>(sign | kept);
}

}  // namespace rlgen
