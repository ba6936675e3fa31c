"""Tensor names and shapes of a decoder checkpoint, as its config.json implies them."""

from __future__ import annotations

from typing import Any

Shapes = dict[str, tuple[int, ...]]

MLP_NAMES = ("gate_proj", "up_proj", "down_proj")


def head_dim(config: dict[str, Any]) -> int:
    """Size of one attention head."""
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def has_qkv_bias(config: dict[str, Any]) -> bool:
    """Whether query, key and value projections carry biases; Qwen2 and gpt-oss have them without saying so."""
    if config["model_type"] == "qwen2_moe":
        return config.get("qkv_bias", True)
    if config["model_type"] == "gpt_oss":
        return config.get("attention_bias", True)
    return config["model_type"] == "qwen2" or config.get("attention_bias", False)


def has_output_bias(config: dict[str, Any]) -> bool:
    """Whether the attention output projection carries a bias."""
    if config["model_type"] == "gpt_oss":
        return has_qkv_bias(config)
    return config["model_type"] not in ("qwen2", "qwen2_moe") and config.get("attention_bias", False)


def is_sparse(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer has experts in place of one feed-forward block."""
    if config["model_type"] in ("gpt_oss", "mixtral", "olmoe"):
        return True
    if config["model_type"] in ("deepseek_v2", "deepseek_v3"):
        return layer >= config["first_k_dense_replace"] and layer % config.get("moe_layer_freq", 1) == 0
    if config["model_type"] not in ("qwen2_moe", "qwen3_moe"):
        return False
    step = config.get("decoder_sparse_step", 1)
    return layer not in config.get("mlp_only_layers", []) and (layer + 1) % step == 0


def latent_attention_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of one block of latent attention; weights are [outputs, inputs]."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    rank, plain, rotated = (config[key] for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"))
    query_rank, value = config["q_lora_rank"], config["v_head_dim"]
    shapes: Shapes = {}
    if query_rank is None:
        shapes[f"{prefix}.q_proj.weight"] = (heads * (plain + rotated), hidden)
    else:
        shapes[f"{prefix}.q_a_proj.weight"] = (query_rank, hidden)
        shapes[f"{prefix}.q_a_layernorm.weight"] = (query_rank,)
        shapes[f"{prefix}.q_b_proj.weight"] = (heads * (plain + rotated), query_rank)
    shapes[f"{prefix}.kv_a_proj_with_mqa.weight"] = (rank + rotated, hidden)
    shapes[f"{prefix}.kv_a_layernorm.weight"] = (rank,)
    shapes[f"{prefix}.kv_b_proj.weight"] = (heads * (plain + value), rank)
    shapes[f"{prefix}.o_proj.weight"] = (hidden, heads * value)
    if config.get("attention_bias", False):
        for name in ("q_a_proj", "kv_a_proj_with_mqa", "o_proj"):
            weight = f"{prefix}.{name}.weight"
            shapes |= {f"{prefix}.{name}.bias": shapes[weight][:1]} if weight in shapes else {}
    return shapes


def attention_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of one attention block; weights are [outputs, inputs]."""
    if "kv_lora_rank" in config:
        return latent_attention_shapes(config, prefix)
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
    if config["model_type"] in ("qwen3", "qwen3_moe"):
        shapes[f"{prefix}.q_norm.weight"] = (head,)
        shapes[f"{prefix}.k_norm.weight"] = (head,)
    if config["model_type"] == "olmoe":
        shapes[f"{prefix}.q_norm.weight"] = (query,)
        shapes[f"{prefix}.k_norm.weight"] = (key,)
    if config["model_type"] == "gpt_oss":
        shapes[f"{prefix}.sinks"] = (config["num_attention_heads"],)
    return shapes


def mlp_shapes(config: dict[str, Any], prefix: str, inner: int, names: tuple[str, str, str] = MLP_NAMES) -> Shapes:
    """Tensors of one gated feed-forward block of `inner` elements; weights are [outputs, inputs]."""
    hidden = config["hidden_size"]
    shapes: Shapes = {}
    for name, (rows, columns) in zip(names, ((inner, hidden), (inner, hidden), (hidden, inner)), strict=True):
        shapes[f"{prefix}.{name}.weight"] = (rows, columns)
        if config.get("mlp_bias", False):
            shapes[f"{prefix}.{name}.bias"] = (rows,)
    return shapes


def expert_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of the experts of one layer and of their router."""
    mixtral = config["model_type"] == "mixtral"
    block = f"{prefix}.block_sparse_moe" if mixtral else f"{prefix}.mlp"
    count = next(config[key] for key in ("num_experts", "num_local_experts", "n_routed_experts") if key in config)
    inner = config.get("moe_intermediate_size", config["intermediate_size"])
    shapes: Shapes = {f"{block}.gate.weight": (count, config["hidden_size"])}
    for expert in range(count):
        names = ("w1", "w3", "w2") if mixtral else MLP_NAMES
        shapes |= mlp_shapes(config, f"{block}.experts.{expert}", inner, names)
    if "shared_expert_intermediate_size" in config:
        shapes |= mlp_shapes(config, f"{block}.shared_expert", config["shared_expert_intermediate_size"])
        shapes[f"{block}.shared_expert_gate.weight"] = (1, config["hidden_size"])
    if config["model_type"] == "deepseek_v3":
        shapes[f"{block}.gate.e_score_correction_bias"] = (count,)
    if "n_shared_experts" in config:
        shapes |= mlp_shapes(config, f"{block}.shared_experts", config["n_shared_experts"] * inner)
    return shapes


def transposed_expert_shapes(config: dict[str, Any], prefix: str) -> Shapes:
    """Tensors of the experts of one layer of gpt-oss and of their router; those of experts are [inputs, outputs]."""
    hidden, inner, count = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    experts = f"{prefix}.mlp.experts"
    return {
        f"{prefix}.mlp.router.weight": (count, hidden),
        f"{prefix}.mlp.router.bias": (count,),
        f"{experts}.gate_up_proj": (count, hidden, 2 * inner),
        f"{experts}.gate_up_proj_bias": (count, 2 * inner),
        f"{experts}.down_proj": (count, inner, hidden),
        f"{experts}.down_proj_bias": (count, hidden),
    }


def checkpoint_shapes(config: dict[str, Any]) -> Shapes:
    """Every tensor of the checkpoint: name -> shape, embedding first, head last."""
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        shapes[f"{prefix}.input_layernorm.weight"] = (hidden,)
        shapes |= attention_shapes(config, f"{prefix}.self_attn")
        shapes[f"{prefix}.post_attention_layernorm.weight"] = (hidden,)
        if config["model_type"] == "gpt_oss":
            shapes |= transposed_expert_shapes(config, prefix)
        elif is_sparse(config, layer):
            shapes |= expert_shapes(config, prefix)
        else:
            shapes |= mlp_shapes(config, f"{prefix}.mlp", config["intermediate_size"])
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, hidden)
    return shapes
