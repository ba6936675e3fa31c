"""Checkpoints with experts that a test makes for itself: of many experts, and with tensors changed."""

from __future__ import annotations

import json
import math
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKPOINTS = Path(__file__).resolve().parents[1] / "fixtures" / "checkpoints"
HIDDEN = 16
INNER = 8
VOCAB = 96
TOP_K = 3


@dataclass
class Tensor:
    """A tensor as a safetensors file has it."""

    dtype: str
    shape: list[int]
    content: bytes


Tensors = dict[str, Tensor]


def read_tensors(path: Path) -> Tensors:
    """All tensors of a file."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    header.pop("__metadata__", None)
    tensors = {}
    for name, facts in header.items():
        first, end = facts["data_offsets"]
        tensors[name] = Tensor(facts["dtype"], facts["shape"], raw[begin + first : begin + end])
    return tensors


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Writes a file of them."""
    header, end = {}, 0
    for name, tensor in tensors.items():
        offsets = [end, end + len(tensor.content)]
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}
        end = offsets[1]
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    with path.open("wb") as file:
        file.write(len(words).to_bytes(8, "little") + words)
        for tensor in tensors.values():
            file.write(tensor.content)


def copy_checkpoint(name: str, folder: Path, changes: dict[str, Any]) -> Tensors:
    """Copies a fixture with changes of its config.json to `folder`; returns its tensors."""
    shutil.copytree(CHECKPOINTS / name, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    return read_tensors(folder / "model.safetensors")


def random_tensor(source: random.Random, shape: list[int]) -> Tensor:
    """bfloat16 of either sign between 1/32 and 1/8."""
    count = math.prod(shape)
    content = bytearray(2 * count)
    content[0::2] = source.randbytes(count)
    content[1::2] = source.randbytes(count).translate(bytes([0x3D] * 128 + [0xBD] * 128))
    return Tensor("BF16", shape, bytes(content))


def write_many_experts(folder: Path, count: int) -> Path:
    """Writes a Qwen3-MoE of one layer with so many experts to `folder`, grouped; returns the folder."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-6,
        "eos_token_id": 2,
        "moe_intermediate_size": INNER,
        "num_experts": count,
        "num_experts_per_tok": TOP_K,
        "norm_topk_prob": True,
    }
    layer = "model.layers.0"
    shapes = {
        "model.embed_tokens.weight": [VOCAB, HIDDEN],
        "model.norm.weight": [HIDDEN],
        "lm_head.weight": [VOCAB, HIDDEN],
        f"{layer}.input_layernorm.weight": [HIDDEN],
        f"{layer}.post_attention_layernorm.weight": [HIDDEN],
        f"{layer}.self_attn.q_proj.weight": [16, HIDDEN],
        f"{layer}.self_attn.k_proj.weight": [8, HIDDEN],
        f"{layer}.self_attn.v_proj.weight": [8, HIDDEN],
        f"{layer}.self_attn.o_proj.weight": [HIDDEN, 16],
        f"{layer}.self_attn.q_norm.weight": [8],
        f"{layer}.self_attn.k_norm.weight": [8],
        f"{layer}.mlp.gate.weight": [count, HIDDEN],
        f"{layer}.mlp.experts.gate_up_proj": [count, 2 * INNER, HIDDEN],
        f"{layer}.mlp.experts.down_proj": [count, HIDDEN, INNER],
    }
    source = random.Random(7)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_tensors(folder / "model.safetensors", {name: random_tensor(source, shape) for name, shape in shapes.items()})
    return folder
