"""What makes a tiny checkpoint, and the configuration that most of them change."""

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


def without(config: Config, *keys: str) -> Config:
    """A copy of `config` that lacks `keys`."""
    return {key: value for key, value in config.items() if key not in keys}


def variant(model_type: str, architecture: str, **changes: Any) -> Config:
    """The Llama configuration above, renamed to another family and changed."""
    base = without(LLAMA, "head_dim", "attention_bias", "mlp_bias")
    return base | {"architectures": [architecture], "model_type": model_type} | changes
