#include "models/config_keys.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace rlgen::models {
namespace {

constexpr std::string_view kHarmlessKeys[] = {
    // Names, versions, bookkeeping.
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path",
    "architectures", "attn_implementation", "custom_pipelines", "dtype", "finetuning_task",
    "is_llama_config", "model_type", "name_or_path", "prefix", "tokenizer_class", "torch_dtype",
    "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
    // Training and outputs of other libraries.
    "attention_dropout", "chunk_size_feed_forward", "classifier_dropout", "embd_pdrop",
    "gradient_checkpointing", "hidden_dropout", "id2label", "initializer_range", "label2id",
    "num_labels", "output_attentions", "output_hidden_states", "output_scores", "pretraining_tp",
    "problem_type", "resid_pdrop", "return_dict", "return_dict_in_generate", "task_specific_params",
    "tf_legacy_loss", "tie_encoder_decoder", "torchscript", "use_bfloat16", "use_cache",
    // Of routers: whether their scores are returned, the loss that spreads tokens over experts and
    // the noise of training.
    "output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
    // Token ids and defaults of sampling; eos_token_id is read with the stop ids.
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "eos_token_id", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "mask_token_id", "max_length", "min_length",
    "model_max_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "pad_token_id", "remove_invalid_values", "repetition_penalty",
    "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p", "unk_token_id",
    // Of a rotary section: how the scaling came about.
    "rope_parameters.finetuned", "rope_scaling.finetuned"};

// Harmless while false, empty or null.
constexpr std::string_view kOffOnly[] = {
    "add_cross_attention", "is_decoder", "is_encoder_decoder", "pruned_heads",
    "rope_interleaved",    "use_mrope",  "use_sliding_window"};

struct KnownKey {
  std::string_view key;
  std::string_view meaning;
};

constexpr KnownKey kArithmeticKeys[] = {
    {"add_cross_attention", "cross attention"},
    {"attention_multiplier", "another scale of the attention scores"},
    {"attn_logit_softcapping", "a cap on the attention scores"},
    {"attn_output_gate", "a gate on the attention output"},
    {"auto_map", "model code that travels with the checkpoint"},
    {"clip_qkv", "clipping of queries, keys and values"},
    {"compression_config", "compressed weights"},
    {"cross_attention_layers", "cross attention"},
    {"dual_chunk_attention_config", "dual chunk attention"},
    {"embedding_multiplier", "a factor on the embeddings"},
    {"final_logit_softcapping", "a cap on the logits"},
    {"hidden_activation", "another name of the activation"},
    {"is_encoder_decoder", "an encoder beside the decoder"},
    {"layer_types", "attention of different kinds by layer"},
    {"logit_scale", "a factor on the logits"},
    {"logits_scaling", "a divisor of the logits"},
    {"moe_intermediate_size", "mixture of experts"},
    {"num_experts", "mixture of experts"},
    {"num_experts_per_tok", "mixture of experts"},
    {"num_local_experts", "mixture of experts"},
    {"partial_rotary_factor", "rotary embedding of a part of each head"},
    {"per_layer_config", "settings by layer"},
    {"pruned_heads", "attention heads removed"},
    {"quantization_config", "quantised weights"},
    {"query_pre_attn_scalar", "another scale of the attention scores"},
    {"residual_multiplier", "a factor on the residual branches"},
    {"rope_interleaved", "rotary embedding of neighbouring elements"},
    {"rope_local_base_freq", "another rotary base for local layers"},
    {"sliding_window", "sliding window attention"},
    {"text_config", "a text model inside a multimodal one"},
    {"use_mrope", "rotary embedding over several axes"},
    {"use_qk_norm", "norms on queries and keys"},
    {"use_sliding_window", "sliding window attention"},
    {"vision_config", "a vision tower"}};

bool is_off(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_structured() && value.empty();
}

}  // namespace

KeyJudgement judge_key(std::string_view key, const nlohmann::json& value) {
  if (std::ranges::find(kHarmlessKeys, key) != std::end(kHarmlessKeys)) {
    return KeyJudgement::kHarmless;
  }
  if (is_off(value) && std::ranges::find(kOffOnly, key) != std::end(kOffOnly)) {
    return KeyJudgement::kHarmless;
  }
  return describe_key(key).empty() ? KeyJudgement::kUnknown : KeyJudgement::kChangesArithmetic;
}

std::string_view describe_key(std::string_view key) {
  const auto* at = std::ranges::find(kArithmeticKeys, key, &KnownKey::key);
  return at == std::end(kArithmeticKeys) ? std::string_view() : at->meaning;
}

}  // namespace rlgen::models
