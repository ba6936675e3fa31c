"""The grouped form of the tensors of experts, in which Transformers holds them from version 5 on."""

from __future__ import annotations

import re

import numpy as np

EXPERT = re.compile(
    r"(?P<layer>model\.layers\.\d+)\.(?:mlp|block_sparse_moe)\.experts\.(?P<expert>\d+)\.(?P<part>\w+)\.weight"
)
PARTS = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def group_experts(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same weights with two tensors in place of those of each layer's experts.

    They are `mlp.experts.gate_up_proj` [experts, 2 * inner, hidden] and `mlp.experts.down_proj`
    [experts, hidden, inner].

    Args:
        values: name -> values of a checkpoint in the separate form.
    """
    grouped: dict[str, np.ndarray] = {}
    experts: dict[str, dict[str, list[np.ndarray]]] = {}
    for name, array in values.items():
        found = EXPERT.fullmatch(name)
        if found is None:
            grouped[name.replace(".block_sparse_moe.gate.", ".mlp.gate.")] = array
            continue
        parts = experts.setdefault(found["layer"], {"gate": [], "up": [], "down": []})[PARTS[found["part"]]]
        if int(found["expert"]) != len(parts):
            raise ValueError(f"{name} comes out of turn")
        parts.append(array)
    for layer, of_layer in experts.items():
        gate_up = [np.concatenate(pair) for pair in zip(of_layer["gate"], of_layer["up"], strict=True)]
        grouped[f"{layer}.mlp.experts.gate_up_proj"] = np.stack(gate_up)
        grouped[f"{layer}.mlp.experts.down_proj"] = np.stack(of_layer["down"])
    return grouped
