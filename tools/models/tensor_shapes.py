"""Tensor names and shapes of a decoder checkpoint, as its config.json implies them."""

from __future__ import annotations

from typing import Any

Shapes = dict[str, tuple[int, ...]]


def head_dim(config: dict[str, Any]) -> int:
    """Size of one attention head."""
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def has_qkv_bias(config: dict[str, Any]) -> bool:
    """Whether query, key and value projections carry biases; Qwen2 has them without saying so."""
    return config["model_type"] == "qwen2" or config.get("attention_bias", False)


def has_output_bias(config: dict[str, Any]) -> bool:
    """Whether the attention output projection carries a bias."""
    return config["model_type"] != "qwen2" and config.get("attention_bias", False)


def attention_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of one attention block; weights are [outputs, inputs]."""
    hidden, head = config["hidden_size"], head_dim(config)
    query, key = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes: Shapes = {}
    for name, rows in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
        shapes[f"{prefix}.{name}.weight"] = (rows, hidden)
        if has_qkv_bias(config):
            shapes[f"{prefix}.{name}.bias"] = (rows,)
    shapes[f"{prefix}.o_proj.weight"] = (hidden, query)
    if has_output_bias(config):
        shapes[f"{prefix}.o_proj.bias"] = (hidden,)
    if config["model_type"] == "qwen3":
        shapes[f"{prefix}.q_norm.weight"] = (head,)
        shapes[f"{prefix}.k_norm.weight"] = (head,)
    return shapes


def mlp_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of one gated feed-forward block; weights are [outputs, inputs]."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes: Shapes = {}
    for name, rows, columns in (("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)):
        shapes[f"{prefix}.{name}.weight"] = (rows, columns)
        if config.get("mlp_bias", False):
            shapes[f"{prefix}.{name}.bias"] = (rows,)
    return shapes


def checkpoint_shapes(config: dict[str, Any]) -> Shapes:
    """Every tensor of the checkpoint: name -> shape, embedding first, head last."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes[f"{prefix}.input_layernorm.weight"] = (hidden,)
        shapes |= attention_shapes(config, f"{prefix}.self_attn")
        shapes[f"{prefix}.post_attention_layernorm.weight"] = (hidden,)
        shapes |= mlp_shapes(config, f"{prefix}.mlp")
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes
