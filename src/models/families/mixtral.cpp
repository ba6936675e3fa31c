#include "models/families/decoder_names.h"
#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {

// Mixtral: Mistral over experts in every layer; the weights of a token's experts always sum to 1. A
// sliding window, where there is one, holds for every layer.
FamilyConfig read_mixtral(ConfigReader& config) {
  FamilyConfig result =
      read_dense(config, {.family = "mixtral", .rope_theta = 1000000.0, .norm_eps = 1e-5});
  DecoderSpec& spec = result.spec;
  const int32_t window = read_window(config, 0);
  for (LayerSpec& layer : spec.layer) layer.window = window;
  read_experts(config, "num_local_experts", "intermediate_size", &spec);
  make_all_sparse(&spec);
  spec.experts.normalize = true;
  return result;
}

NameTable mixtral_names(const DecoderSpec& spec) {
  return decoder_names(spec, {.router = "block_sparse_moe.gate",
                              .experts = "block_sparse_moe.experts",
                              .gate = "w1",
                              .up = "w3",
                              .down = "w2"});
}

}  // namespace rlgen::models
