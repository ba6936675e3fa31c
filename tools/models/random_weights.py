"""Random weights for tiny checkpoints, scaled so that every part of the network matters."""

from __future__ import annotations

import zlib

import numpy as np

LOGIT_STD = 2.0
SCORE_GAIN = 1.4


def tensor_generator(seed: int, name: str) -> np.random.Generator:
    """A generator of its own for each tensor, so that adding one does not change the others."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def random_tensor(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draws one tensor.

    Inputs of every linear layer have a root mean square near 1 after their norm. Query and key
    rows are scaled so that attention scores have a standard deviation near 2, head rows so that
    logits have one near 2; norm weights lie around 1, biases around 0.

    Args:
        seed: seed of the checkpoint.
        name: Hugging Face name of the tensor.
        shape: [outputs, inputs] for weights, [n] for norms and biases.

    Returns:
        float32 of `shape`.
    """
    generator = tensor_generator(seed, name)
    values = generator.standard_normal(shape)
    if name.endswith("norm.weight"):
        values = 1.0 + 0.2 * values
    elif name.endswith(".bias"):
        values = 0.3 * values
    elif "embed_tokens" in name or "lm_head" in name:
        values = LOGIT_STD / np.sqrt(shape[-1]) * values
    elif "q_proj" in name or "k_proj" in name:
        values = SCORE_GAIN / np.sqrt(shape[-1]) * values
    else:
        values = values / np.sqrt(shape[-1])
    return values.astype(np.float32)
