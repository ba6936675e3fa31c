"""The tiny checkpoints: which there are and what each is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """How to make one checkpoint.

    Attributes:
        purpose: what the checkpoint shows, for the table in the documentation.
        config: config.json without "torch_dtype".
        dtype: storage type of the tensors.
        seed: seed of the weights; equal seeds and shapes give equal weights.
        shards: number of safetensors files.
        grouped: whether the experts of a layer are one tensor.
        tokenizer: whether the byte-level test tokenizer is put beside the weights.
        generation_config: generation_config.json, where there is one.
    """

    purpose: str
    config: Config
    dtype: str = "F32"
    seed: int = 1
    shards: int = 1
    grouped: bool = False
    tokenizer: bool = False
    generation_config: Config = field(default_factory=dict)


LLAMA: Config = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 160,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ROPE_LLAMA: Config = LLAMA | {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64}


def without(config: Config, *keys: str) -> Config:
    """A copy of `config` that lacks `keys`."""
    return {key: value for key, value in config.items() if key not in keys}


def variant(model_type: str, architecture: str, **changes: Any) -> Config:
    """The Llama configuration above, renamed to another family and changed."""
    base = without(LLAMA, "head_dim", "attention_bias", "mlp_bias")
    return base | {"architectures": [architecture], "model_type": model_type} | changes


def rope(purpose: str, scaling: Config, **changes: Any) -> Recipe:
    """A Llama whose positions are scaled as `scaling` says; all of these share their weights."""
    return Recipe(purpose, ROPE_LLAMA | {"rope_scaling": scaling} | changes, "BF16", seed=2)


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

DEEPSEEK_YARN: Config = {
    "type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
DEEPSEEK: Config = variant(
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    hidden_size=40,
    num_hidden_layers=3,
    num_key_value_heads=4,
    attention_bias=False,
    q_lora_rank=24,
    kv_lora_rank=20,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=10,
    rope_scaling=DEEPSEEK_YARN,
    moe_intermediate_size=20,
    moe_layer_freq=1,
    first_k_dense_replace=1,
    n_routed_experts=16,
    n_shared_experts=2,
    num_experts_per_tok=4,
    n_group=4,
    topk_group=2,
    topk_method="noaux_tc",
    scoring_func="sigmoid",
    norm_topk_prob=True,
    routed_scaling_factor=1.5,
)
DEEPSEEK_V2: Config = DEEPSEEK | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "topk_method": "group_limited_greedy",
    "scoring_func": "softmax",
    "norm_topk_prob": False,
    "routed_scaling_factor": 3.0,
    "rope_scaling": DEEPSEEK_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
    "aux_loss_alpha": 0.001,
    "seq_aux": True,
}

LONGROPE_SHORT = [1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4]
LONGROPE_LONG = [1.0, 1.1, 1.35, 1.9, 2.6, 3.1, 3.6, 4.0]

RECIPES: dict[str, Recipe] = {
    "deepseek_v2": Recipe(
        "latent attention, experts from the two best of four groups, two shared ones, the first layer without; yarn"
        " with both corrections",
        DEEPSEEK_V2,
        "BF16",
        seed=26,
    ),
    "deepseek_v2_lite": Recipe(
        "the same without a latent of queries and groups, in two layers; biases",
        DEEPSEEK_V2
        | {"q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "n_shared_experts": 1}
        | {"num_hidden_layers": 2, "first_k_dense_replace": 0, "routed_scaling_factor": 1.0, "attention_bias": True},
        "F16",
        seed=27,
    ),
    "deepseek_v3": Recipe(
        "latent attention, experts chosen from sigmoids with a bias in two of four groups, two shared ones, the first"
        " layer without; yarn with both corrections",
        DEEPSEEK | {"num_nextn_predict_layers": 1, "ep_size": 1},
        "BF16",
        seed=28,
    ),
    "deepseek_v3_plain": Recipe(
        "the same without a latent of queries, groups and scaling of positions, rotary halves in place of pairs,"
        " weights of experts not normalised; biases, tied head",
        without(DEEPSEEK, "rope_scaling")
        | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "norm_topk_prob": False, "rope_interleave": False}
        | {"attention_bias": True, "tie_word_embeddings": True, "n_routed_experts": 12, "num_hidden_layers": 2}
        | {"n_shared_experts": 1},
        seed=29,
    ),
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
    "llama": Recipe("untied head, float32, head_dim other than hidden / heads", LLAMA),
    "llama_tied": Recipe(
        "tied head, bfloat16, one KV head, sizes that are no multiples of 16",
        without(LLAMA, "head_dim", "attention_bias", "mlp_bias")
        | {"vocab_size": 131, "hidden_size": 40, "intermediate_size": 52, "num_key_value_heads": 1}
        | {"tie_word_embeddings": True},
        "BF16",
        seed=3,
    ),
    "llama_bias": Recipe(
        "biases on all seven projections, a large norm epsilon",
        LLAMA | {"attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.01},
        "BF16",
        seed=4,
    ),
    "llama_fp16": Recipe("float16 weights, three layers", LLAMA | {"num_hidden_layers": 3}, "F16", seed=5),
    "llama_sharded": Recipe(
        "the weights of llama_fp16 in three files with an index",
        LLAMA | {"num_hidden_layers": 3},
        "F16",
        seed=5,
        shards=3,
    ),
    "llama_text": Recipe(
        "with the byte-level test tokenizer, whose ids end before the head does, and sampling defaults",
        LLAMA | {"vocab_size": 300, "hidden_size": 32, "bos_token_id": 270, "eos_token_id": 271},
        "BF16",
        seed=6,
        tokenizer=True,
        generation_config={
            "bos_token_id": 270,
            "eos_token_id": [271, 274],
            "temperature": 0.7,
            "top_p": 0.8,
            "repetition_penalty": 1.1,
        },
    ),
    "llama_rope_linear": rope("linear scaling, named by the older key `type`", {"type": "linear", "factor": 2.0}),
    "llama_rope_dynamic": rope(
        "dynamic scaling, original context 64", {"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=64
    ),
    "llama_rope_llama3": Recipe(
        "llama3 scaling inside `rope_parameters`, original context 64",
        without(ROPE_LLAMA, "rope_theta")
        | {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
        "BF16",
        seed=2,
    ),
    "llama_rope_yarn": rope(
        "yarn scaling, original context 32",
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    ),
    "llama_rope_yarn_mscale": rope(
        "yarn with betas, mscale and mscale_all_dim, bounds not rounded, original context 32",
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 8.0,
            "beta_slow": 0.5,
            "mscale": 1.0,
            "mscale_all_dim": 0.707,
            "truncate": False,
        },
    ),
    "llama_rope_longrope": rope(
        "longrope scaling, original context 32",
        {
            "rope_type": "longrope",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "short_factor": LONGROPE_SHORT,
            "long_factor": LONGROPE_LONG,
        },
    ),
    "mistral": Recipe(
        "sliding window of 20 keys in every layer",
        variant("mistral", "MistralForCausalLM", sliding_window=20, head_dim=12, intermediate_size=64),
        "BF16",
        seed=7,
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
    "qwen2": Recipe(
        "biases on q, k and v without an `attention_bias` key; a window that is switched off",
        variant(
            "qwen2",
            "Qwen2ForCausalLM",
            vocab_size=203,
            use_sliding_window=False,
            sliding_window=8,
            max_window_layers=0,
        ),
        seed=8,
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
    "qwen2_window": Recipe(
        "sliding window of 8 keys from layer 1 on",
        variant(
            "qwen2",
            "Qwen2ForCausalLM",
            num_hidden_layers=3,
            use_sliding_window=True,
            sliding_window=8,
            max_window_layers=1,
            tie_word_embeddings=True,
        ),
        "BF16",
        seed=9,
    ),
    "qwen3": Recipe(
        "norms on queries and keys, head_dim other than hidden / heads",
        variant(
            "qwen3",
            "Qwen3ForCausalLM",
            head_dim=24,
            num_hidden_layers=3,
            hidden_size=32,
            attention_bias=False,
            tie_word_embeddings=False,
            use_sliding_window=False,
            sliding_window=None,
            max_window_layers=2,
            rope_theta=1000000.0,
            rms_norm_eps=1e-06,
        ),
        seed=15,
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
    "smollm3": Recipe(
        "four layers, the second and fourth without rotary embedding",
        variant(
            "smollm3",
            "SmolLM3ForCausalLM",
            num_hidden_layers=4,
            attention_bias=False,
            mlp_bias=False,
            no_rope_layers=[1, 0, 1, 0],
            no_rope_layer_interval=2,
            use_sliding_window=False,
            tie_word_embeddings=True,
            rope_theta=2000000.0,
            pad_token_id=0,
        ),
        "BF16",
        seed=11,
    ),
}
