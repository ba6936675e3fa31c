"""What an engine that is measured has to offer, and the context that it is measured in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peers.work import Timing, Work


@dataclass(frozen=True)
class Setting:
    """Where and how everything runs.

    Attributes:
        model: Hugging Face folder with the weights in bfloat16.
        threads: of every engine.
        folder: that holds the peers' environments and logs.
        rlgen: the built command.
    """

    model: Path
    threads: int
    folder: Path
    rlgen: Path


class Peer(Protocol):
    """One engine in one configuration."""

    name: str
    arithmetic: str

    def install(self) -> None:
        """Makes everything that is needed and missing; PeerError where that fails."""

    def start(self) -> None:
        """Gets ready to run; PeerError where it is not installed or does not come up."""

    def run(self, work: Work, seed: int) -> Timing:
        """Runs a row once; PeerError where it cannot."""

    def stop(self) -> None:
        """Gives back what start() took. May be called without it."""
