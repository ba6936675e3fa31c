#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/json_document.h"
#include "models/rotary.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

constexpr Bounds<int32_t> kContextBounds{2, kMaxContext};
constexpr Bounds<double> kThetaBounds{1.0 + 1e-6, 1e12};
constexpr Bounds<double> kFactorBounds{1.0, 1e4};
constexpr Bounds<double> kPositive{1e-9, 1e9};

bool is_filled(const json* section) {
  return section != nullptr && !(section->is_object() && section->empty());
}

// The section in force; an empty string when there is none.
std::string find_section(ConfigReader& config) {
  std::string found;
  for (const std::string name : {"rope_parameters", "rope_scaling"}) {
    const json* section = config.raw(name);
    if (!is_filled(section)) continue;
    if (!section->is_object()) config.reject(name, "expected an object");
    if (found.empty()) {
      found = name;
    } else if (*section != *config.raw(found)) {
      config.reject(name, fmt::format("but {} is {}; keep one of them", found,
                                      show_json(*config.raw(found))));
    }
  }
  return found;
}

// Complains when `inner` and `outer` both stand in the file with different values.
void check_agreement(ConfigReader& config, const std::string& inner, const std::string& outer) {
  const json* a = config.raw(inner);
  const json* b = config.raw(outer);
  if (a != nullptr && b != nullptr && *a != *b) {
    config.reject(inner, fmt::format("but {} is {}; keep one of them", outer, show_json(*b)));
  }
}

RotaryKind read_kind(ConfigReader& config, const std::string& section) {
  if (section.empty()) return RotaryKind::kDefault;
  check_agreement(config, section + ".rope_type", section + ".type");
  const std::string older = config.text_or(section + ".type", "default");
  const std::string name = config.text_or(section + ".rope_type", older);
  constexpr std::pair<const char*, RotaryKind> kKinds[] = {
      {"default", RotaryKind::kDefault}, {"linear", RotaryKind::kLinear},
      {"dynamic", RotaryKind::kDynamic}, {"llama3", RotaryKind::kLlama3},
      {"yarn", RotaryKind::kYarn},       {"longrope", RotaryKind::kLongrope}};
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  config.fail(absl::UnimplementedError(
      fmt::format("{}: {}.rope_type is \"{}\", which is not implemented; default, linear, dynamic, "
                  "llama3, yarn and longrope are",
                  config.file(), section, name)));
  return RotaryKind::kDefault;
}

double read_theta(ConfigReader& config, const std::string& section, double otherwise) {
  const double outer = config.number_or("rope_theta", otherwise, kThetaBounds);
  if (section.empty()) return outer;
  const std::string inner = section + ".rope_theta";
  if (config.has(inner) && config.has("rope_theta") &&
      config.number_or(inner, outer, kThetaBounds) != outer) {
    check_agreement(config, inner, "rope_theta");
  }
  return config.number_or(inner, outer, kThetaBounds);
}

void check_whole_head(ConfigReader& config, const std::string& section) {
  std::vector<std::string> keys = {"partial_rotary_factor"};
  if (!section.empty()) keys.push_back(section + ".partial_rotary_factor");
  for (const std::string& key : keys) {
    const double part = config.number_or(key, 1.0, kPositive);
    if (part == 1.0) continue;
    config.fail(absl::UnimplementedError(fmt::format(
        "{}: {} is {}: rotary embedding of a part of each head is not implemented for this family",
        config.file(), key, part)));
  }
}

int32_t read_original(ConfigReader& config, const std::string& section, int32_t max_position) {
  const std::string outer = "original_max_position_embeddings";
  const std::string inner = section + "." + outer;
  check_agreement(config, inner, outer);
  const int32_t value = config.integer_or(outer, max_position, kContextBounds);
  return config.integer_or(inner, value, kContextBounds);
}

void read_factors(ConfigReader& config, const std::string& key, size_t count,
                  std::vector<double>* factors) {
  *factors = config.numbers(key, kPositive);
  if (factors->size() == count) return;
  config.reject(key, fmt::format("expected {} numbers, one for each pair of the head", count));
  factors->assign(count, 1.0);
}

std::optional<double> optional_number(ConfigReader& config, const std::string& key,
                                      Bounds<double> bounds) {
  if (!config.has(key)) return std::nullopt;
  return config.number_or(key, 1.0, bounds);
}

// The factor; for yarn and longrope its default is the ratio of the two contexts.
void read_factor(ConfigReader& config, const std::string& section, RotaryParameters* p) {
  const std::string key = section + ".factor";
  const bool has_default = p->kind == RotaryKind::kLongrope || p->kind == RotaryKind::kYarn;
  const double ratio = double(p->max_position) / p->original;
  p->factor =
      has_default ? config.number_or(key, ratio, kFactorBounds) : config.number(key, kFactorBounds);
}

void read_dynamic(ConfigReader& config, const std::string& section, const RotaryParameters& p) {
  if (p.dim < 4) config.reject(section, "dynamic scaling needs a head dimension of at least 4");
  if (p.original == p.max_position) return;
  config.reject(section + ".original_max_position_embeddings",
                fmt::format("but dynamic scaling counts from max_position_embeddings, which is {}",
                            p.max_position));
}

void read_llama3(ConfigReader& config, const std::string& section, RotaryParameters* p) {
  p->low_freq_factor = config.number(section + ".low_freq_factor", kPositive);
  p->high_freq_factor = config.number(section + ".high_freq_factor", kPositive);
  if (p->high_freq_factor > p->low_freq_factor) return;
  config.reject(section + ".high_freq_factor",
                fmt::format("expected more than low_freq_factor, which is {}", p->low_freq_factor));
}

void read_yarn(ConfigReader& config, const std::string& section, RotaryParameters* p) {
  constexpr Bounds<double> kMscaleBounds{0.0, 1e3};
  const auto nonzero_or = [&](const char* name, double otherwise) {
    const double value = config.number_or(section + name, otherwise, {0.0, 1e6});
    return value == 0.0 ? otherwise : value;
  };
  p->beta_fast = nonzero_or(".beta_fast", 32.0);
  p->beta_slow = nonzero_or(".beta_slow", 1.0);
  if (p->beta_fast < p->beta_slow) {
    config.reject(section + ".beta_fast",
                  fmt::format("expected at least beta_slow, which is {}", p->beta_slow));
  }
  p->truncate = config.flag_or(section + ".truncate", true);
  p->mscale = optional_number(config, section + ".mscale", kMscaleBounds);
  p->mscale_all_dim = optional_number(config, section + ".mscale_all_dim", kMscaleBounds);
  p->attention_factor = optional_number(config, section + ".attention_factor", kPositive);
}

void read_longrope(ConfigReader& config, const std::string& section, RotaryParameters* p) {
  read_factors(config, section + ".short_factor", size_t(p->dim / 2), &p->short_factor);
  read_factors(config, section + ".long_factor", size_t(p->dim / 2), &p->long_factor);
  p->attention_factor = optional_number(config, section + ".attention_factor", kPositive);
}

}  // namespace

RotaryParameters read_rotary(ConfigReader& config, const RotaryShape& shape) {
  const std::string section = find_section(config);
  RotaryParameters p{.kind = read_kind(config, section),
                     .theta = read_theta(config, section, shape.default_theta),
                     .dim = shape.head_dim,
                     .max_position = shape.max_position,
                     .original = shape.max_position};
  check_whole_head(config, section);
  if (shape.head_dim % 2 != 0) {
    config.fail(absl::InvalidArgumentError(
        fmt::format("{}: head_dim is {}, but rotary embedding needs an even one", config.file(),
                    shape.head_dim)));
  }
  if (p.kind == RotaryKind::kDefault) return p;
  if (p.kind != RotaryKind::kLinear)
    p.original = read_original(config, section, shape.max_position);
  read_factor(config, section, &p);
  if (p.kind == RotaryKind::kDynamic) read_dynamic(config, section, p);
  if (p.kind == RotaryKind::kLlama3) read_llama3(config, section, &p);
  if (p.kind == RotaryKind::kYarn) read_yarn(config, section, &p);
  if (p.kind == RotaryKind::kLongrope) read_longrope(config, section, &p);
  return p;
}

}  // namespace rlgen::models
