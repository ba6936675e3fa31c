"""Weights that a trainer saves."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

from rlgen import futures


class DiskTransport:
    """Checkpoints that engines read.

    save: writes every tensor as a checkpoint in Hugging Face's layout (`model.save_pretrained(folder)`), or waits
    for somebody else's (`rlgen.weights.wait_for_version(root, at_least).folder`), and returns its folder, which
    stays as it is while a sync runs. cast: floating types may differ from those of the engines.
    """

    def __init__(self, save: Callable[[], str | PathLike[str]], *, cast: bool = False) -> None:
        self._save = save
        self._cast = cast

    def init_communicator(self, generation: Any) -> None:
        """Nothing to set up."""

    def start(self, generation: Any, timeout_s: float) -> tuple[list[Any], list[Any]]:
        """Saves, and begins a transfer; returns the futures of producers and of consumers."""
        folder = self._save()
        producer = futures.start(lambda: None, "rlgen-weights-out")
        consumers = generation.update_weights_from_disk(folder, refit_timeout_s=timeout_s, cast=self._cast)
        return [producer], consumers

    def shutdown(self) -> None:
        """Nothing to tear down."""
