"""What a column of media looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class MediaColumnSpec:
    """Type of the pixels in a media column, and the side of a patch in pixels."""

    pixel_dtype: torch.dtype
    patch_size: int
