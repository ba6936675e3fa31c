"""Table checkpoints: Llama checkpoints whose next-token logits depend on the last token alone.

The hidden size d is at least the vocabulary V. Embedding row u is the u-th unit vector, attention
and feed-forward outputs are zero, so the final norm sees the unit vector of the last token and
stretches it to sqrt(d). With head column u set to L[u] / sqrt(d), the logits after token u are
L[u]. For d a power of four and entries of L with few bits this is exact in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.random_weights import random_tensor
from models.tensor_shapes import checkpoint_shapes

HEADS = 1
HEAD_DIM = 16
INTERMEDIATE = 16
WEIGHT_SEED = 20


@dataclass(frozen=True)
class Table:
    """A table and what config.json says beside it.

    Attributes:
        logits: float32 [V, V]; row u holds the logits after token u. NaN is allowed.
        eos: end-of-text ids; one is written as a number, several as a list.
        max_position_embeddings: context length.
        layers: decoder layers, all without effect.
    """

    logits: np.ndarray
    eos: tuple[int, ...] = ()
    max_position_embeddings: int = 256
    layers: int = 1


def hidden_size(vocabulary: int) -> int:
    """The smallest power of four that is at least `vocabulary` and 16."""
    size = 16
    while size < vocabulary:
        size *= 4
    return size


def table_config(table: Table) -> dict[str, Any]:
    """config.json of a table checkpoint."""
    vocabulary = table.logits.shape[0]
    eos: int | list[int] | None = None
    if table.eos:
        eos = table.eos[0] if len(table.eos) == 1 else list(table.eos)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": hidden_size(vocabulary),
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": table.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": table.max_position_embeddings,
        "rms_norm_eps": 1e-12,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": eos,
    }


def table_weights(table: Table) -> dict[str, np.ndarray]:
    """Every tensor of a table checkpoint: name -> float32.

    Projections before the zero ones are random, so that caching and attention have work to do.
    """
    config = table_config(table)
    hidden = config["hidden_size"]
    values = {}
    for name, shape in checkpoint_shapes(config).items():
        if name == "model.embed_tokens.weight":
            values[name] = np.eye(*shape, dtype=np.float32)
        elif name == "lm_head.weight":
            values[name] = np.zeros(shape, dtype=np.float32)
            values[name][:, : shape[0]] = table.logits.T / np.sqrt(np.float32(hidden))
        elif name.endswith("norm.weight"):
            values[name] = np.ones(shape, dtype=np.float32)
        elif "o_proj" in name or "down_proj" in name:
            values[name] = np.zeros(shape, dtype=np.float32)
        else:
            values[name] = random_tensor(WEIGHT_SEED, name, shape)
    return values


def parse_table(document: dict[str, Any]) -> Table:
    """Reads a table from its JSON form.

    Keys: "vocab_size" V; "default" (V logits, after every token that has no row of its own);
    "rows" (token id -> V logits, or -> {token id: logit} over the default row); "eos";
    "max_position_embeddings"; "layers". NaN is written as the string "nan".

    Raises:
        ValueError: an unknown key, or a row of the wrong length or with an id outside 0 .. V-1.
    """
    known = {
        "vocab_size",
        "default",
        "rows",
        "eos",
        "max_position_embeddings",
        "layers",
        "tokens",
        "special",
        "purpose",
    }
    unknown = sorted(set(document) - known)
    if unknown:
        raise ValueError(f"unknown keys {unknown}; known are {sorted(known)}")
    size = document["vocab_size"]
    default = parse_row("default", document.get("default", [0.0] * size), size)
    logits = np.tile(default, (size, 1))
    for key, row in document.get("rows", {}).items():
        logits[token_index(key, size)] = overlay(f"rows.{key}", default, row)
    options = {key: document[key] for key in ("max_position_embeddings", "layers") if key in document}
    return Table(logits, tuple(document.get("eos", ())), **options)


def token_index(key: str, size: int) -> int:
    """The id that a JSON key names; ValueError where it is outside 0 .. size-1."""
    index = int(key)
    if not 0 <= index < size:
        raise ValueError(f"token id {index} is outside 0 .. {size - 1}")
    return index


def parse_row(where: str, row: list[Any], size: int) -> np.ndarray:
    """A full row: `size` numbers (or "nan"), as float32 [size]."""
    if len(row) != size:
        raise ValueError(f"{where} has {len(row)} logits, vocab_size is {size}")
    return np.array([float(value) for value in row], dtype=np.float32)


def overlay(where: str, default: np.ndarray, row: list[Any] | dict[str, Any]) -> np.ndarray:
    """A row given in full, or as changes to the default row (float32 [V]); returns float32 [V]."""
    if isinstance(row, list):
        return parse_row(where, row, default.size)
    changed = default.copy()
    for key, value in row.items():
        changed[token_index(key, default.size)] = float(value)
    return changed
