"""Conversions between float32 and the 16-bit formats of checkpoints."""

from __future__ import annotations

import numpy as np


def to_bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Rounds float32 to bfloat16, ties to even.

    Args:
        values: float32, any shape, finite.

    Returns:
        uint16 of the same shape: the upper half of each rounded float32.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half_and_tie = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + half_and_tie) >> np.uint32(16)).astype(np.uint16)


def from_bfloat16_bits(bits: np.ndarray) -> np.ndarray:
    """Widens bfloat16 bits (uint16, any shape) to float32 of the same shape, exactly."""
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
