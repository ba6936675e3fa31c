#pragma once

#include <string>

#include "models/config_reader.h"
#include "models/decoder_spec.h"

namespace rlgen::models {

// Reads how many experts there are, `num_experts` or (as Transformers may write it for the same)
// `num_local_experts`, and how many a row goes through, `num_experts_per_tok`. `usual_key` is the
// one that is missing where neither is there. `size_key` has the size of each expert. No layer is
// made sparse.
void read_experts(ConfigReader& config, const std::string& usual_key, const std::string& size_key,
                  DecoderSpec* spec);

// Makes layers sparse as Qwen's configurations say it: every `decoder_sparse_step`-th (absent:
// each) but those that `mlp_only_layers` lists, counted from 0.
void read_sparse_layers(ConfigReader& config, DecoderSpec* spec);

// Makes every layer sparse.
void make_all_sparse(DecoderSpec* spec);

}  // namespace rlgen::models
