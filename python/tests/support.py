"""What the tests of the package share."""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "tests" / "fixtures" / "checkpoints"

# At the start of a program that is to be interrupted: what is run in the background ignores Ctrl-C by inheritance.
HEEDS_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def _module_of(path: Path) -> ModuleType:
    """A module that stands elsewhere, by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


expert_checkpoints = _module_of(ROOT / "tests" / "e2e" / "expert_checkpoints.py")


def checkpoint(name: str) -> Path:
    """The folder of a fixture checkpoint."""
    return CHECKPOINTS / name


def tensors_of(name: str) -> dict[str, Any]:
    """The tensors of a fixture checkpoint in one file of float32 or float16, as numpy arrays."""
    import numpy as np

    content = (checkpoint(name) / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    tensors = {}
    for tensor, facts in header.items():
        if tensor != "__metadata__":
            begin, end = (8 + size + offset for offset in facts["data_offsets"])
            dtype = {"F32": np.float32, "F16": np.float16}[facts["dtype"]]
            tensors[tensor] = np.frombuffer(content[begin:end], dtype).reshape(facts["shape"])
    return tensors


def grow_checkpoint(name: str, folder: Path, rows: int, positions: int) -> None:
    """Writes a fixture checkpoint to `folder` with a vocabulary of `rows`, repeated, and that many positions."""
    import numpy as np

    facts = json.loads((checkpoint(name) / "config.json").read_text(encoding="utf-8"))
    facts |= {"vocab_size": rows, "max_position_embeddings": positions}
    (folder / "config.json").write_text(json.dumps(facts), encoding="utf-8")
    tensors = tensors_of(name)
    for tensor in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[tensor] = np.resize(tensors[tensor], (rows, tensors[tensor].shape[1]))
    write_tensors(folder, tensors)


def write_tensors(folder: Path, tensors: dict[str, Any]) -> None:
    """Writes numpy arrays of float32 or float16 as the tensors of a checkpoint."""
    header, end = {}, 0
    for tensor, values in tensors.items():
        dtype = {"float32": "F32", "float16": "F16"}[str(values.dtype)]
        header[tensor] = {"dtype": dtype, "shape": values.shape, "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    words = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(words).to_bytes(8, "little") + words)
        for values in tensors.values():
            file.write(values.tobytes())


def resident_bytes() -> int:
    """How much of this process is in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def has(module: str) -> bool:
    """True where `module` can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


needs_native = unittest.skipUnless(has("rlgen._native"), "the native extension is not built")
needs_numpy = unittest.skipUnless(has("numpy"), "numpy is not installed")
needs_pydantic = unittest.skipUnless(has("pydantic"), "pydantic is not installed")
needs_torch = unittest.skipUnless(has("torch"), "torch is not installed")
