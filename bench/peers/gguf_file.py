"""Turns a Llama or Qwen3-MoE checkpoint in bfloat16 into a GGUF file for llama.cpp; no tokenizer in it."""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType

ARCHITECTURES = {"llama": "llama", "qwen3_moe": "qwen3moe"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
EXPERT = re.compile(r"(?<=\.experts\.)(\d+)\.")


def gguf_name(name: str) -> str:
    """Name of a Hugging Face tensor in a GGUF file, one for all experts; KeyError where it has none."""
    stem, suffix = EXPERT.sub("", name).rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{suffix}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.{suffix}"


def sources_by_name(names: Iterable[str]) -> dict[str, list[str]]:
    """The tensors that each tensor of a GGUF file is made of: one, or those of all experts in order."""

    def expert(name: str) -> int:
        found = EXPERT.search(name)
        return int(found[1]) if found else 0

    sources: dict[str, list[str]] = {}
    for name in sorted(names, key=expert):
        sources.setdefault(gguf_name(name), []).append(name)
    return sources


def pairs_from_halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Puts query or key rows into GGUF's order: the two rotary halves of a head interleaved.

    Args:
        weight: [heads * head_dim, hidden].
        heads: query or key heads.

    Returns:
        The same shape.
    """
    rows, hidden = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, hidden).swapaxes(1, 2).reshape(rows, hidden)


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The entries of a safetensors file, and where its data begins."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


def tensor_bits(mapped: mmap.mmap, base: int, entry: dict[str, Any]) -> np.ndarray:
    """A bfloat16 tensor of a mapped file, as uint16 of its shape."""
    if entry["dtype"] != "BF16":
        raise ValueError(f"a tensor is {entry['dtype']}; only checkpoints in bfloat16 are converted")
    begin, end = entry["data_offsets"]
    return np.frombuffer(mapped, np.uint16, (end - begin) // 2, base + begin).reshape(entry["shape"])


def widen(bits: np.ndarray) -> np.ndarray:
    """Bfloat16 bits as float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def add_config(writer: GGUFWriter, config: dict[str, Any]) -> None:
    """The metadata that llama.cpp needs of a model without a tokenizer."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_scaling_type(RopeScalingType.NONE)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


def check_convertible(folder: Path, config: dict[str, Any]) -> None:
    """ValueError where llama.cpp would compute something else than the checkpoint says."""
    if config["model_type"] not in ARCHITECTURES or config.get("rope_scaling"):
        raise ValueError(f"{folder}: only Llama and Qwen3-MoE checkpoints without scaled positions are converted")
    if config["model_type"] == "llama":
        return
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise ValueError(f"{folder}: only checkpoints with experts in every layer are converted")
    if not config.get("norm_topk_prob") or config.get("use_sliding_window") or config.get("attention_bias"):
        raise ValueError(f"{folder}: only checkpoints with normalised weights of experts, without window and biases")


def convert(folder: Path, target: Path) -> None:
    """Writes the checkpoint of `folder` to `target`; complete or not at all.

    Raises:
        ValueError: another family or kind of it (check_convertible), or not in bfloat16.
    """
    config = json.loads((folder / "config.json").read_text())
    check_convertible(folder, config)
    architecture = ARCHITECTURES[config["model_type"]]
    unfinished = target.with_suffix(".part")
    writer = GGUFWriter(unfinished, architecture, use_temp_file=False)
    add_config(writer, config)
    header, base = read_header(folder / "model.safetensors")
    with (folder / "model.safetensors").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name, sources in sources_by_name(header).items():
            parts = [tensor_bits(mapped, base, header[source]) for source in sources]
            bits = np.stack(parts) if "_exps." in name else parts[0]
            if name.endswith("norm.weight") or "ffn_gate_inp" in name:
                writer.add_tensor(name, widen(bits))
                continue
            for projection, heads in (("attn_q", "num_attention_heads"), ("attn_k", "num_key_value_heads")):
                if name.endswith(f"{projection}.weight") and architecture == "llama":
                    bits = pairs_from_halves(bits, config[heads])
            packed = np.ascontiguousarray(bits).view(np.uint8)
            writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.BF16)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    unfinished.replace(target)


if __name__ == "__main__":
    import sys

    convert(Path(sys.argv[1]), Path(sys.argv[2]))
