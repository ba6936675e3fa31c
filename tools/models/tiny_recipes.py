"""The tiny checkpoints: which there are and what each is for."""

from __future__ import annotations

from typing import Any

from models.expert_recipes import EXPERT_RECIPES
from models.latent_recipes import LATENT_RECIPES
from models.recipe import LLAMA, Config, Recipe, variant, without

ROPE_LLAMA: Config = LLAMA | {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64}
LONGROPE_SHORT = [1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4]
LONGROPE_LONG = [1.0, 1.1, 1.35, 1.9, 2.6, 3.1, 3.6, 4.0]


def rope(purpose: str, scaling: Config, **changes: Any) -> Recipe:
    """A Llama whose positions are scaled as `scaling` says; all of these share their weights."""
    return Recipe(purpose, ROPE_LLAMA | {"rope_scaling": scaling} | changes, "BF16", seed=2)


DENSE_RECIPES: dict[str, Recipe] = {
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

RECIPES: dict[str, Recipe] = dict(sorted((DENSE_RECIPES | EXPERT_RECIPES | LATENT_RECIPES).items()))
