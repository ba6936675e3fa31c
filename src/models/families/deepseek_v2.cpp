#include <fmt/format.h>

#include "models/families/latent.h"

namespace rlgen::models {

// DeepSeek-V2 and V2-Lite: latent attention over experts that are chosen by their softmax, in V2
// from the best groups alone, and weighed by it times a factor.
FamilyConfig read_deepseek_v2(ConfigReader& config) {
  FamilyConfig result = read_latent(config, {.family = "deepseek_v2"});
  check_only(config, "scoring_func", "softmax");
  check_off(config, "mlp_bias");
  check_off(config, "norm_topk_prob");
  const std::string method = config.text_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    read_groups(config, 1, &result.spec);
  } else if (method == "greedy") {
    for (const char* const key : {"n_group", "topk_group"}) config.has(key);  // not looked at
  } else {
    config.fail(absl::UnimplementedError(
        fmt::format("{}: topk_method is \"{}\", which is not implemented; \"greedy\" and "
                    "\"group_limited_greedy\" are",
                    config.file(), method)));
  }
  return result;
}

}  // namespace rlgen::models
