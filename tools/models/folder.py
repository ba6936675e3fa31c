"""Writes checkpoints as Hugging Face folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from models import safetensors_file
from models.numbers import to_bfloat16_bits
from models.safetensors_file import StoredTensor

CONFIG_DTYPE = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def write_json(path: Path, document: Any) -> None:
    """Writes indented JSON with a newline at the end."""
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def store(values: np.ndarray, dtype: str) -> StoredTensor:
    """Converts float32 values of any shape to a tensor stored as "F32", "F16" or "BF16"."""
    if dtype == "BF16":
        return StoredTensor(dtype, to_bfloat16_bits(values))
    return StoredTensor(dtype, values.astype(safetensors_file.STORAGE[dtype]))


def write_sharded(folder: Path, tensors: dict[str, StoredTensor], shards: int) -> None:
    """Writes `shards` safetensors files of consecutive tensors and the index that names them."""
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for shard, part in enumerate(np.array_split(np.arange(len(names)), shards), start=1):
        file_name = f"model-{shard:05d}-of-{shards:05d}.safetensors"
        chosen = {names[i]: tensors[names[i]] for i in part}
        safetensors_file.write(folder / file_name, chosen)
        weight_map |= dict.fromkeys(chosen, file_name)
    total = sum(tensor.data.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(folder / "model.safetensors.index.json", index)


def write_checkpoint(
    folder: Path, config: dict[str, Any], values: dict[str, np.ndarray], dtype: str, shards: int = 1
) -> None:
    """Writes config.json and the weights.

    Args:
        folder: made where it is missing.
        config: written as it is, with "torch_dtype" added.
        values: name -> float32 values, in checkpoint order.
        dtype: storage type of every tensor: "F32", "F16" or "BF16".
        shards: number of safetensors files; above 1 an index is written too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config | {"torch_dtype": CONFIG_DTYPE[dtype]})
    tensors = {name: store(array, dtype) for name, array in values.items()}
    if shards == 1:
        safetensors_file.write(folder / "model.safetensors", tensors)
    else:
        write_sharded(folder, tensors, shards)
