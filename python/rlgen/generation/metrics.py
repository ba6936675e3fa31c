"""Samples and counters of the engines, as a trainer's logger wants them."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

SAMPLE_SECONDS = 0.5
HISTORY = 10_000
ShardMetrics = dict[str, int]

_SAMPLED: dict[str, Callable[[ShardMetrics], float]] = {
    "inflight_batch_sizes": lambda metrics: metrics["running"],
    "num_pending_samples": lambda metrics: metrics["waiting"],
    "kv_cache_usage_perc": lambda metrics: metrics["kv_blocks_used"] / max(metrics["kv_blocks_total"], 1),
    "generation_tokens": lambda metrics: metrics["generated_tokens"],
}
_COUNTERS = ("generated_tokens", "prompt_tokens", "preemptions", "cache_hit_tokens", "cache_miss_tokens")


class LoggerMetrics:
    """Samples of every shard, taken every half second by a thread of its own; of many, the last 10,000.

    inflight_batch_sizes: running sequences. num_pending_samples: waiting ones. kv_cache_usage_perc: share of
    the KV blocks in use, from 0 to 1. generation_tokens: tokens generated since the start.
    """

    def __init__(self, read: Callable[[], Sequence[ShardMetrics]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._samples: dict[str, dict[int, deque[float]]] = {name: {} for name in _SAMPLED}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rlgen-metrics", daemon=True)
        self._thread.start()

    def get(self) -> dict[str, Any]:
        """All samples since the last clear, one of now among them: metric to {shard: [samples]}."""
        self._sample()
        with self._lock:
            return {name: {shard: list(values) for shard, values in by.items()} for name, by in self._samples.items()}

    def clear(self) -> None:
        """Forgets the samples."""
        with self._lock:
            self._samples = {name: {} for name in _SAMPLED}

    def drain(self) -> dict[str, Any]:
        """The newest value of every list, alone; nothing else is kept either."""
        self._sample()
        with self._lock:
            latest = {name: {shard: [values[-1]] for shard, values in by.items()} for name, by in self._samples.items()}
            for by_shard in self._samples.values():
                for values in by_shard.values():
                    newest = values[-1]
                    values.clear()
                    values.append(newest)
            return latest

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        metrics = self._read()
        with self._lock:
            for name, value in _SAMPLED.items():
                for shard, of_shard in enumerate(metrics):
                    self._samples[name].setdefault(shard, deque(maxlen=HISTORY)).append(value(of_shard))


class StepMetrics:
    """What was counted between a snapshot and the question for it."""

    def __init__(self, read: Callable[[], Sequence[ShardMetrics]]) -> None:
        self._read = read
        self._begin: dict[str, int] | None = None

    def snapshot(self) -> None:
        """Begins a window. A second one in a row warns and counts."""
        if self._begin is not None:
            warnings.warn("snapshot_step_metrics was called twice; the second one counts", RuntimeWarning, stacklevel=3)
        self._begin = self._sums()

    def get(self) -> dict[str, float]:
        """The increments since the snapshot, which is used up; without one a warning and nothing."""
        if self._begin is None:
            warnings.warn("get_step_metrics was called without snapshot_step_metrics", RuntimeWarning, stacklevel=3)
            return {}
        begin, self._begin = self._begin, None
        return {f"rlgen/{name}": float(value - begin[name]) for name, value in self._sums().items()}

    def _sums(self) -> dict[str, int]:
        metrics = self._read()
        return {name: sum(of_shard[name] for of_shard in metrics) for name in _COUNTERS}
