"""Weights of a trainer in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlgen import futures
from rlgen.weights import NamedTensors


class MemoryTransport:
    """Hands the trainer's tensors to engines of this process, without a copy on the way.

    tensors: gives every tensor under its Hugging Face name, each time anew; on the CPU and contiguous. They
    must not change while a sync runs. cast: their floating types may differ from those of the engines.
    """

    def __init__(self, tensors: Callable[[], NamedTensors], *, cast: bool = False) -> None:
        self._tensors = tensors
        self._cast = cast

    def init_communicator(self, generation: Any) -> None:
        """Nothing to set up."""

    def start(self, generation: Any, timeout_s: float) -> tuple[list[Any], list[Any]]:
        """Begins a transfer; returns the futures of producers and of consumers."""
        named = self._tensors()
        producer = futures.start(lambda: None, "rlgen-weights-out")
        consumers = generation.update_weights_from_tensors(named, refit_timeout_s=timeout_s, cast=self._cast)
        return [producer], consumers

    def shutdown(self) -> None:
        """Nothing to tear down."""
