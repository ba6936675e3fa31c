#include "models/families/latent_names.h"

#include <fmt/format.h>

namespace rlgen::models {

void add_latent_attention(const DecoderSpec& spec, LayerNames* names) {
  const LatentSpec& latent = spec.latent;
  const int64_t heads = spec.heads;
  const int64_t queries = heads * (latent.plain + latent.rotated);
  if (latent.query_rank > 0) {
    names->linear("query_latent", spec.hidden, {{"self_attn.q_a_proj", latent.query_rank}},
                  spec.qkv_bias);
    names->vector("query_latent_norm", {{"self_attn.q_a_layernorm", latent.query_rank}}, "weight");
    names->linear("queries", latent.query_rank, {{"self_attn.q_b_proj", queries}}, false);
  } else {
    names->linear("queries", spec.hidden, {{"self_attn.q_proj", queries}}, false);
  }
  names->linear("latent", spec.hidden,
                {{"self_attn.kv_a_proj_with_mqa", latent.rank + latent.rotated}}, spec.qkv_bias);
  names->vector("latent_norm", {{"self_attn.kv_a_layernorm", latent.rank}}, "weight");
  names->table.split_rows(fmt::format("{}self_attn.kv_b_proj.weight", names->tensors), latent.rank,
                          heads,
                          {{names->slots + "latent_keys", latent.plain, /*transposed=*/true},
                           {names->slots + "latent_values", latent.value, /*transposed=*/false}});
  names->linear("output", heads * latent.value, {{"self_attn.o_proj", spec.hidden}},
                spec.output_bias);
}

}  // namespace rlgen::models
