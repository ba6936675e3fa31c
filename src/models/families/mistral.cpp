#include "models/families/dense.h"

namespace rlgen::models {

// Mistral: Llama without biases; a sliding window, where there is one, holds for every layer.
FamilyConfig read_mistral(ConfigReader& config) {
  FamilyConfig result = read_dense(config, {.family = "mistral"});
  const int32_t window = read_window(config, kUsualWindow);
  for (LayerSpec& layer : result.spec.layer) layer.window = window;
  return result;
}

}  // namespace rlgen::models
