#include <fmt/format.h>

#include "models/families/dense.h"
#include "models/families/experts.h"

namespace rlgen::models {

// OLMoE: Llama over experts in every layer, with one norm over all queries of a token and one over
// all keys; queries, keys and values are clipped to `clip_qkv` behind the norms, where it is there.
FamilyConfig read_olmoe(ConfigReader& config) {
  FamilyConfig result =
      read_dense(config, {.family = "olmoe", .norm_eps = 1e-5, .kv_heads_given = false});
  DecoderSpec& spec = result.spec;
  spec.qk_norm = spec.qk_norm_rows = true;
  spec.qkv_bias = spec.output_bias = config.flag_or("attention_bias", false);
  spec.clip_qkv = float(config.number_or("clip_qkv", 0.0, {1e-6, 1e6}));
  if (spec.heads * spec.head_dim != spec.hidden) {
    config.reject("head_dim", fmt::format("but the norms of this family need heads of hidden_size "
                                          "/ num_attention_heads elements, {} / {}",
                                          spec.hidden, spec.heads));
  }
  read_experts(config, "num_experts", "intermediate_size", &spec);
  make_all_sparse(&spec);
  spec.experts.normalize = config.flag_or("norm_topk_prob", false);
  return result;
}

}  // namespace rlgen::models
