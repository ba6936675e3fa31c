"""Random weights for tiny checkpoints, scaled so that every part of the network matters."""

from __future__ import annotations

import zlib

import numpy as np

from models.numbers import to_bfloat16_bits

LOGIT_STD = 2.0
SCORE_GAIN = 1.4
SINK_STD = 2.0
PIECE_ELEMENTS = 1 << 22


def tensor_generator(seed: int, name: str) -> np.random.Generator:
    """A generator of its own for each tensor, so that adding one does not change the others."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def random_tensor(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draws one tensor.

    Inputs of every linear layer have a root mean square near 1 after their norm. Query and key
    rows are scaled so that attention scores have a standard deviation near 2, head rows so that
    logits have one near 2, as sinks of attention have; norm weights lie around 1, biases around 0.

    Args:
        seed: seed of the checkpoint.
        name: Hugging Face name of the tensor.
        shape: [outputs, inputs] for weights, [experts, inputs, outputs] for those of transposed experts,
            [n] for norms, sinks and biases, [experts, n] for biases of experts.

    Returns:
        float32 of `shape`.
    """
    values = tensor_generator(seed, name).standard_normal(shape)
    return scaled(name, shape, values).astype(np.float32)


def scaled(name: str, shape: tuple[int, ...], values: np.ndarray) -> np.ndarray:
    """Normal `values`, of a tensor of `shape` or of some of its rows, as random_tensor scales them."""
    if name.endswith("norm.weight"):
        return 1.0 + 0.2 * values
    if name.endswith("e_score_correction_bias"):
        return 0.15 * values
    if name.endswith(("_bias", ".bias")):
        return 0.3 * values
    if name.endswith(".sinks"):
        return SINK_STD * values
    if name.endswith("_proj"):
        return values / np.sqrt(shape[-2])
    if "embed_tokens" in name or "lm_head" in name:
        return LOGIT_STD / np.sqrt(shape[-1]) * values
    if "q_proj" in name or "q_b_proj" in name or "k_proj" in name:
        return SCORE_GAIN / np.sqrt(shape[-1]) * values
    return values / np.sqrt(shape[-1])


def random_bfloat16(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draws a tensor of any size as bfloat16 bits, a few rows at a time.

    Scaled as random_tensor does it; the values are others, drawn in float32.

    Returns:
        uint16 of `shape`.
    """
    generator = tensor_generator(seed, name)
    rows = max(1, PIECE_ELEMENTS // int(np.prod(shape[1:], dtype=np.int64)))
    bits = np.empty(shape, dtype=np.uint16)
    for begin in range(0, shape[0], rows):
        piece = bits[begin : begin + rows]
        values = generator.standard_normal(piece.shape, dtype=np.float32)
        piece[...] = to_bfloat16_bits(scaled(name, shape, values).astype(np.float32))
    return bits
