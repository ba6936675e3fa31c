#include "models/families/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/rotary.h"

namespace rlgen::models {
namespace {

constexpr Bounds<int32_t> kExperts{1, 1 << 16};

std::string count_key(ConfigReader& config, const std::string& usual_key) {
  const std::string other = usual_key == "num_experts" ? "num_local_experts" : "num_experts";
  if (!config.has(other)) return usual_key;
  if (!config.has(usual_key)) return other;
  const int32_t count = config.integer(usual_key, kExperts);
  if (config.integer(other, kExperts) != count) {
    config.reject(other, fmt::format("but {} is {}", usual_key, count));
  }
  return usual_key;
}

}  // namespace

void read_experts(ConfigReader& config, const std::string& usual_key, const std::string& size_key,
                  DecoderSpec* spec) {
  ExpertSpec& experts = spec->experts;
  experts.count_key = count_key(config, usual_key);
  experts.count = config.integer(experts.count_key, kExperts);
  experts.top_k = config.integer("num_experts_per_tok", kExperts);
  experts.intermediate = config.integer(size_key, {1, 1 << 22});
  if (experts.top_k <= experts.count) return;
  config.reject("num_experts_per_tok", fmt::format("but {} is {}: a token cannot go through more "
                                                   "experts than there are",
                                                   experts.count_key, experts.count));
}

void read_sparse_layers(ConfigReader& config, DecoderSpec* spec) {
  const std::string key = "mlp_only_layers";
  const std::vector<double> dense = config.numbers(key, {0.0, double(kMaxContext)});
  for (size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] == std::floor(dense[i])) continue;
    config.reject(fmt::format("{}[{}]", key, i), "expected the number of a layer");
  }
  const int32_t step = config.integer_or("decoder_sparse_step", 1, {1, kMaxContext});
  for (int32_t i = 0; i < spec->layers; ++i) {
    const bool listed = std::ranges::find(dense, double(i)) != dense.end();
    spec->layer[size_t(i)].sparse = !listed && (i + 1) % step == 0;
  }
}

void make_all_sparse(DecoderSpec* spec) {
  for (LayerSpec& layer : spec->layer) layer.sparse = true;
}

}  // namespace rlgen::models
