"""The tiny checkpoints with experts and without latent attention."""

from __future__ import annotations

from models.recipe import Config, Recipe, variant, without

QWEN3_MOE: Config = variant(
    "qwen3_moe",
    "Qwen3MoeForCausalLM",
    head_dim=24,
    num_hidden_layers=3,
    hidden_size=32,
    attention_bias=False,
    use_sliding_window=False,
    sliding_window=None,
    max_window_layers=2,
    rope_theta=1000000.0,
    rms_norm_eps=1e-06,
    decoder_sparse_step=1,
    mlp_only_layers=[1],
    moe_intermediate_size=20,
    num_experts=8,
    num_experts_per_tok=3,
    norm_topk_prob=True,
    output_router_logits=False,
    router_aux_loss_coef=0.001,
)
QWEN2_MOE: Config = variant(
    "qwen2_moe",
    "Qwen2MoeForCausalLM",
    num_hidden_layers=3,
    hidden_size=40,
    use_sliding_window=False,
    sliding_window=8,
    max_window_layers=2,
    decoder_sparse_step=1,
    mlp_only_layers=[2],
    moe_intermediate_size=24,
    shared_expert_intermediate_size=44,
    num_experts=10,
    num_experts_per_tok=3,
    norm_topk_prob=False,
    output_router_logits=False,
    router_aux_loss_coef=0.001,
)
MIXTRAL: Config = variant(
    "mixtral",
    "MixtralForCausalLM",
    intermediate_size=40,
    sliding_window=None,
    num_local_experts=8,
    num_experts_per_tok=2,
    output_router_logits=False,
    router_aux_loss_coef=0.02,
    router_jitter_noise=0.0,
    rope_theta=1000000.0,
)

OLMOE: Config = variant(
    "olmoe",
    "OlmoeForCausalLM",
    num_key_value_heads=4,
    intermediate_size=24,
    attention_bias=False,
    clip_qkv=None,
    num_experts=16,
    num_experts_per_tok=4,
    norm_topk_prob=False,
    output_router_logits=False,
    router_aux_loss_coef=0.01,
)

GPT_OSS: Config = variant(
    "gpt_oss",
    "GptOssForCausalLM",
    num_hidden_layers=3,
    hidden_size=40,
    intermediate_size=20,
    head_dim=12,
    attention_bias=True,
    attention_dropout=0.0,
    experts_per_token=3,
    initial_context_length=32,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    max_position_embeddings=128,
    num_local_experts=6,
    num_experts_per_tok=3,
    output_router_logits=False,
    rope_scaling={
        "rope_type": "yarn",
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 32,
    },
    rope_theta=150000,
    router_aux_loss_coef=0.9,
    sliding_window=8,
    swiglu_limit=1.25,
)

EXPERT_RECIPES: dict[str, Recipe] = {
    "gpt_oss": Recipe(
        "sinks in every head, experts with biases whose gate is bounded at 1.25, every other layer with a window of 8"
        " keys, yarn whose bounds are not rounded",
        GPT_OSS,
        "BF16",
        seed=24,
    ),
    "gpt_oss_plain": Recipe(
        "the same without biases on q, k, v and o, every other layer with a window without being listed, the usual"
        " bound and scaling without a key",
        without(GPT_OSS, "rope_scaling", "layer_types", "swiglu_limit", "experts_per_token", "initial_context_length")
        | {"attention_bias": False, "sliding_window": 20, "num_local_experts": 10, "num_experts_per_tok": 4}
        | {"num_hidden_layers": 2, "tie_word_embeddings": True},
        seed=25,
    ),
    "mixtral": Recipe("experts in every layer under names of their own", MIXTRAL, "BF16", seed=16),
    "mixtral_grouped": Recipe(
        "the weights of mixtral with one tensor for all experts of a layer", MIXTRAL, "BF16", seed=16, grouped=True
    ),
    "mixtral_window": Recipe(
        "experts and a sliding window of 20 keys in every layer",
        MIXTRAL | {"sliding_window": 20, "num_local_experts": 4},
        "F16",
        seed=17,
    ),
    "olmoe": Recipe("norms over all queries and all keys, weights of experts not normalised", OLMOE, "BF16", seed=22),
    "olmoe_clip": Recipe(
        "the same with fewer KV heads, queries, keys and values clipped at 0.9, biases, weights of experts normalised",
        OLMOE
        | {"num_key_value_heads": 2, "clip_qkv": 0.9, "norm_topk_prob": True, "attention_bias": True}
        | {"num_experts": 12, "tie_word_embeddings": True},
        seed=23,
    ),
    "qwen2_moe": Recipe(
        "a shared expert beside those of the router, whose weights are not normalised; the last layer without; biases"
        " on q, k and v without a key",
        QWEN2_MOE,
        seed=20,
    ),
    "qwen2_moe_window": Recipe(
        "experts in every second layer, their weights normalised, one shared; a window of 8 keys in the first layer of"
        " four; no biases",
        without(QWEN2_MOE, "mlp_only_layers")
        | {"use_sliding_window": True, "num_hidden_layers": 4, "decoder_sparse_step": 2, "norm_topk_prob": True}
        | {"qkv_bias": False},
        "BF16",
        seed=21,
    ),
    "qwen3_moe": Recipe(
        "experts but in the second layer, their weights normalised; sizes that are no multiples of 16",
        QWEN3_MOE,
        seed=18,
    ),
    "qwen3_moe_grouped": Recipe(
        "the weights of qwen3_moe with one tensor for all experts of a layer", QWEN3_MOE, seed=18, grouped=True
    ),
    "qwen3_moe_step": Recipe(
        "experts in every second layer, their weights not normalised; biases, a window of 8 keys, no head_dim",
        without(QWEN3_MOE, "head_dim", "mlp_only_layers")
        | {"decoder_sparse_step": 2, "num_hidden_layers": 4, "norm_topk_prob": False, "num_experts": 12}
        | {"num_experts_per_tok": 4, "moe_intermediate_size": 16, "attention_bias": True, "tie_word_embeddings": True}
        | {"use_sliding_window": True, "sliding_window": 8},
        "BF16",
        seed=19,
    ),
}
