"""Generation as a trainer drives it.

`interfaces` has the words of the contract, `RlgenGeneration` is the backend, `BatchedDataDict` the container
that batches travel in. Needs numpy and pydantic (`pip install 'rlgen[trainer]'`); torch where the trainer's
batches are of torch.
"""

from __future__ import annotations

from rlgen.generation.batched_data_dict import BatchedDataDict

__all__ = ["BatchedDataDict"]
