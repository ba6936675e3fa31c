#include <fmt/format.h>

#include "models/families/decoder_names.h"
#include "models/families/latent.h"

namespace rlgen::models {

// DeepSeek-V3 and R1: latent attention over experts that are chosen from sigmoids with a bias, in
// the best groups, and weighed without it. Layers behind the last, which predict further tokens,
// are passed over.
FamilyConfig read_deepseek_v3(ConfigReader& config) {
  FamilyConfig result =
      read_latent(config, {.family = "deepseek_v3", .first_dense = 3, .scale = 2.5});
  DecoderSpec& spec = result.spec;
  spec.latent.interleaved = config.flag_or("rope_interleave", true);
  check_only(config, "scoring_func", "sigmoid");
  check_only(config, "topk_method", "noaux_tc");
  spec.experts.scores = kernels::RouterScores::kSigmoid;
  spec.experts.choice_bias = true;
  spec.experts.group_worth = kernels::GroupWorth::kTwoLargest;
  spec.experts.normalize = config.flag_or("norm_topk_prob", true);
  read_groups(config, 2, &spec);
  // Transformers has another name for the key, and 1 where neither is there.
  const int32_t further = config.integer_or("num_mtp_layers", 1, {0, 1 << 10});
  spec.passed_over_layers = config.integer_or("num_nextn_predict_layers", further, {0, 1 << 10});
  return result;
}

NameTable deepseek_names(const DecoderSpec& spec) {
  NameTable table = decoder_names(spec, {.shared = "mlp.shared_experts"});
  for (int32_t i = 0; i < spec.passed_over_layers; ++i) {
    table.passed_over.push_back(fmt::format("model.layers.{}.", spec.layers + i));
  }
  return table;
}

}  // namespace rlgen::models
