"""What the tests of RlgenGeneration share: backends of fixture checkpoints, and batches for them."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

from support import checkpoint, has

READY = has("rlgen._native") and has("numpy") and has("pydantic")
if TYPE_CHECKING or READY:
    import numpy as np

    from rlgen.generation import BatchedDataDict, RlgenGeneration

PAD = 0


def config(model: str, **changes: Any) -> Any:
    """A section policy.generation for a fixture checkpoint."""
    return {
        "backend": "rlgen",
        "model_name": str(checkpoint(model)),
        "max_new_tokens": 8,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": None,
        "val_temperature": 0.5,
        "val_top_p": 0.9,
        "val_top_k": None,
        "stop_token_ids": None,
        "stop_strings": None,
        "_pad_token_id": PAD,
        "colocated": {"enabled": False, "resources": {"gpus_per_node": None, "num_nodes": None}},
        "rlgen_cfg": {"num_threads": 1},
        **changes,
    }


COLOCATED = {"enabled": True, "resources": {"gpus_per_node": None, "num_nodes": None}}


def batch(*prompts: list[int], **columns: Any) -> BatchedDataDict[Any]:
    """A right-padded batch of numpy."""
    width = max((len(prompt) for prompt in prompts), default=0)
    ids = np.full((len(prompts), width), PAD, np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    lengths = np.array([len(prompt) for prompt in prompts], np.int64)
    return BatchedDataDict({"input_ids": ids, "input_lengths": lengths, **columns})


class GenerationTest(unittest.TestCase):
    """Makes backends that are shut down at the end of the test."""

    def start(self, model: str, **changes: Any) -> RlgenGeneration:
        generation = RlgenGeneration(config(model, **changes))
        self.addCleanup(generation.shutdown)
        return generation


def generated(output: Any, row: int) -> list[int]:
    """The generated ids of a row."""
    end = int(output["unpadded_sequence_lengths"][row])
    return output["output_ids"][row, end - int(output["generation_lengths"][row]) : end].tolist()
