#pragma once

#include <cstdint>
#include <string_view>

#include "models/config_reader.h"
#include "models/decoder_spec.h"
#include "models/rotary.h"
#include "models/weights.h"

namespace rlgen::models {

// What a family makes of a config.json. `spec.rotary` is still empty: it is resolved once the
// context is known.
struct FamilyConfig {
  DecoderSpec spec;
  RotaryParameters rotary;
};

// A model family: how its configuration reads and what its tensors are called. `read` leaves its
// errors in the reader; `names` is called with a valid specification only.
struct Family {
  std::string_view model_type;    // config.json's model_type
  std::string_view architecture;  // the one of config.json's architectures that is served
  FamilyConfig (*read)(ConfigReader& config);
  NameTable (*names)(const DecoderSpec& spec);
};

// One per file of this folder.
FamilyConfig read_deepseek_v2(ConfigReader& config);
FamilyConfig read_deepseek_v3(ConfigReader& config);
FamilyConfig read_gpt_oss(ConfigReader& config);
FamilyConfig read_llama(ConfigReader& config);
FamilyConfig read_mistral(ConfigReader& config);
FamilyConfig read_mixtral(ConfigReader& config);
FamilyConfig read_olmoe(ConfigReader& config);
FamilyConfig read_qwen2(ConfigReader& config);
FamilyConfig read_qwen2_moe(ConfigReader& config);
FamilyConfig read_qwen3(ConfigReader& config);
FamilyConfig read_qwen3_moe(ConfigReader& config);
FamilyConfig read_smollm3(ConfigReader& config);

// Of families that have names of their own.
NameTable deepseek_names(const DecoderSpec& spec);
NameTable gpt_oss_names(const DecoderSpec& spec);
NameTable mixtral_names(const DecoderSpec& spec);

}  // namespace rlgen::models
