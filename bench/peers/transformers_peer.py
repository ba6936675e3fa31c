"""Hugging Face Transformers on PyTorch."""

from __future__ import annotations

from pathlib import Path

from peers.environment import Environment, PeerError, threads_environment
from peers.peer import Setting
from peers.work import Timing, Work, timing_of
from peers.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tools" / "requirements-parity.txt"
START_SECONDS, RUN_SECONDS = 300, 1800


class Transformers:
    """Loaded once; a loop of forward calls with the cache that the library keeps."""

    def __init__(self, setting: Setting, dtype: str = "bfloat16") -> None:
        self.name = "Transformers" if dtype == "bfloat16" else f"Transformers {dtype}"
        self.arithmetic = dtype
        self._setting = setting
        self._environment = Environment(setting.folder / "transformers", REQUIREMENTS.read_text())
        self._worker: Worker | None = None

    def install(self) -> None:
        """PyTorch and Transformers from PyPI, about 5 GB."""
        if self._environment.complete():
            return
        self._environment.begin()
        self._environment.pip("install", "-r", str(REQUIREMENTS), lasts="2.5 GB to download")
        self._environment.finish()

    def start(self) -> None:
        """Loads the model."""
        if not self._environment.complete():
            raise PeerError("not installed")
        setting = self._setting
        script = Path(__file__).parent / "workers" / "transformers_worker.py"
        self._worker = Worker(
            [str(self._environment.python), str(script), str(setting.model), str(setting.threads), self.arithmetic],
            threads_environment(setting.threads, HF_HUB_OFFLINE="1"),
            setting.folder / f"{self.name.replace(' ', '-').lower()}.log",
            self.name,
        )
        self._worker.ask(None, START_SECONDS)

    def run(self, work: Work, seed: int) -> Timing:
        """Runs a row once."""
        if self._worker is None:
            raise PeerError("not started")
        request = {"batch": work.batch, "prompt": work.prompt, "new": work.new, "seed": seed}
        return timing_of(self._worker.ask(request, RUN_SECONDS))

    def stop(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
