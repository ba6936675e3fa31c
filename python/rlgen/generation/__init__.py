"""Generation as a trainer drives it.

`interfaces` has the words of the contract, `RlgenGeneration` is the backend, `BatchedDataDict` the container
that batches travel in. Needs numpy and pydantic (`pip install 'rlgen[trainer]'`); torch where the trainer's
batches are of torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlgen.generation.batched_data_dict import BatchedDataDict

if TYPE_CHECKING:
    from rlgen.generation.rlgen_generation import RlgenGeneration

__all__ = ["BatchedDataDict", "RlgenGeneration"]


def __getattr__(name: str) -> Any:
    if name != "RlgenGeneration":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("rlgen.generation.rlgen_generation").RlgenGeneration
