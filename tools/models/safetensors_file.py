"""Writes and reads safetensors files, bfloat16 included, with numpy alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
STORAGE = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as it lies in the file.

    Attributes:
        dtype: "F32", "F16" or "BF16".
        data: the elements, row-major: float32, float16, or uint16 holding bfloat16 bits.
    """

    dtype: str
    data: np.ndarray


def header_bytes(shapes: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """Builds length prefix and JSON header for tensors laid out in the order of `shapes`.

    Args:
        shapes: name -> (dtype, shape).

    Returns:
        The bytes that precede the data; their count is a multiple of 8.
    """
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in shapes.items():
        size = ITEM_BYTES[dtype] * int(np.prod(shape, dtype=np.int64))
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write(path: Path, tensors: dict[str, StoredTensor]) -> None:
    """Writes `tensors` to `path`: widest dtype first, then by name, so that all data is aligned."""
    order = sorted(tensors, key=lambda name: (-ITEM_BYTES[tensors[name].dtype], name))
    shapes = {name: (tensors[name].dtype, tensors[name].data.shape) for name in order}
    write_streaming(path, shapes, (tensors[name] for name in order))


def write_streaming(
    path: Path, shapes: dict[str, tuple[str, tuple[int, ...]]], tensors: Iterable[StoredTensor]
) -> None:
    """Writes tensors one at a time, for files larger than memory should hold.

    Args:
        path: the file to write.
        shapes: name -> (dtype, shape), in file order.
        tensors: one per entry of `shapes`, in the same order.

    Raises:
        ValueError: a tensor differs in dtype or shape from its entry.
    """
    with path.open("wb") as file:
        file.write(header_bytes(shapes))
        for (name, (dtype, shape)), tensor in zip(shapes.items(), tensors, strict=True):
            if tensor.dtype != dtype or tensor.data.shape != shape:
                raise ValueError(f"{name}: header says {dtype} {shape}, data is {tensor.dtype} {tensor.data.shape}")
            file.write(np.ascontiguousarray(tensor.data, dtype=STORAGE[dtype]).tobytes())


def read(path: Path) -> dict[str, StoredTensor]:
    """Reads every tensor of a file that `write` could have made (F32, F16, BF16)."""
    blob = path.read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        data = np.frombuffer(blob[begin:end], dtype=STORAGE[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = StoredTensor(entry["dtype"], data)
    return tensors
