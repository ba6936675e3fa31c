#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/decoder.h"
#include "models/safetensors.h"

namespace rlgen::models {

// A checkpoint folder, opened and understood; weights still on disk (mapped). Move-only.
struct Model {
  std::string path;
  Decoder decoder;
  SafetensorsFolder tensors;
  std::string digest;                  // hex, of configuration and shapes (model_digest.h)
  std::string rotary_name;             // scaling in force with its context, for the numerics id
  std::vector<int32_t> eos_token_ids;  // union of config, generation config and tokenizer
  int32_t max_model_len = 0;
};

// A folder as it is, or a repository id ("org/name") looked up in the local Hugging Face cache
// (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface/hub). kNotFound says how to download it.
StatusOr<std::string> resolve_model_path(const std::string& model);

// Opens a checkpoint. `max_model_len` 0 takes the model's own. The name table comes with its layout
// resolved from the types in the file. Errors name file and dotted config key or tensor; a key that
// changes the arithmetic and is not implemented is kUnimplemented. A tied model whose file has an
// lm_head that differs from its embedding is kInvalidArgument. With `dtype` every weight will be
// rounded to it once, to nearest even, when it is loaded; the digest says so where that can change
// a weight, and a weight that the type cannot hold is kInvalidArgument with its tensor.
// With a profile that rounds, matrices are bfloat16, whatever `dtype`. The float modes of the
// calling thread change nothing and come back.
StatusOr<Model> open_model(const std::string& model, int64_t max_model_len,
                           std::optional<DType> dtype = std::nullopt,
                           kernels::Profile profile = kernels::Profile::kFloat32);

}  // namespace rlgen::models
