"""One refit, from the pause to the resume."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from rlgen.controls import ModelState
from rlgen.errors import BadInputError, RefitParticipantError, UnsupportedError
from rlgen.refit_calls import RefitCalls
from rlgen.weight_sync.supervision import supervise

REFIT_SECONDS = 300.0
PAUSE_GRACE_SECONDS = 60.0


class Transport(Protocol):
    """How weights get from a trainer to the engines."""

    def init_communicator(self, generation: Any) -> None:
        """Sets up both ends, once."""

    def start(self, generation: Any, timeout_s: float) -> tuple[list[Any], list[Any]]:
        """Begins a transfer; returns the futures of producers and of consumers."""

    def shutdown(self) -> None:
        """Tears both ends down."""


class DispatchGate(Protocol):
    """What admits new rollouts. Closed for the time of a refit, and for good where one failed."""

    def close(self) -> None:
        """Admits nothing more and stops the clocks of requests."""

    def reopen(self) -> None:
        """Admits again and lets the clocks run."""


class WeightSynchronizer:
    """Brings the trainer's weights to the engines.

    generation: a GenerationInterface, an LLM or an AsyncLLM. transport: how the weights travel. recompute_kv_cache:
    requests in flight rebuild their keys and values under the new weights. refit_timeout_s: limit of one transfer;
    pause and resume get 60 seconds more, each. gate: what admits rollouts, where the trainer has one.

    A refit is: close the gate, pause, transfer, stamp the version, resume, reopen the gate. When any step
    fails, none after it runs: the engines stay paused, the gate closed, and `is_stale` True.
    """

    def __init__(
        self,
        generation: Any,
        transport: Transport,
        *,
        recompute_kv_cache: bool = True,
        refit_timeout_s: float = REFIT_SECONDS,
        gate: DispatchGate | None = None,
    ) -> None:
        if isinstance(refit_timeout_s, bool) or not (refit_timeout_s > 0 and math.isfinite(refit_timeout_s)):
            raise BadInputError(f"refit_timeout_s is {refit_timeout_s}; it must be a positive finite number")
        self._generation = _refit_calls(generation)
        self._transport = transport
        self._recompute = recompute_kv_cache
        self._timeout_s = float(refit_timeout_s)
        self._gate = gate
        self._ready = False
        self._stale = True
        self.version = 0

    @property
    def is_stale(self) -> bool:
        """True until the first sync that succeeded, and after one that failed."""
        return self._stale

    def init_communicator(self) -> None:
        """Sets up both ends. Repeated calls do nothing."""
        if not self._ready:
            self._transport.init_communicator(self._generation)
            self._ready = True

    def sync_weights(
        self, timer: Any = None, kv_scales: Mapping[str, float] | None = None, *, version: int | None = None
    ) -> None:
        """One refit. Returns when all engines serve the new weights.

        timer: an object whose `time(name)` is a context manager, for the phases. kv_scales: refused, since no
        engine asks for them. version: what the weights are called from then on; the last one + 1 unless given, where
        the last one is this object's or, where the engines tell, the one that they serve.

        Raises what the failing step raises: DeadlineError, RefitParticipantError, BadInputError.
        """
        if kv_scales is not None:
            raise BadInputError("kv_scales were given; this transport carries none (requires_kv_scale_sync is False)")
        self.init_communicator()
        self._stale = True
        if version is None:
            version = max(self.version, getattr(self._generation, "weight_version", 0)) + 1
        if self._gate is not None:
            self._gate.close()
        with _timed(timer, "weight_sync/pause"):
            self._pause()
        with _timed(timer, "weight_sync/transfer"):
            self._transfer()
        self._generation.set_rollout_weight_version(version)
        with _timed(timer, "weight_sync/resume"):
            self._resume()
        self.version = version
        self._stale = False
        if self._gate is not None:
            self._gate.reopen()

    def reconcile_communicator(self, absent_shards: Iterable[int] = ()) -> bool | None:
        """None: these transports have no membership to rebuild."""
        return None

    def shutdown(self) -> None:
        """Tears the transport down. Repeated calls are safe."""
        if self._ready:
            self._ready = False
            self._transport.shutdown()

    def _pause(self) -> None:
        limit = self._timeout_s + PAUSE_GRACE_SECONDS
        paused = self._generation.pause_generation_for_refit(clear_cache=self._recompute, timeout_s=limit)
        if paused is not True and self._recompute:
            raise UnsupportedError(
                f"{type(self._generation).__name__} cannot pause for a refit, so keys and values of old weights would "
                "be read: use recompute_kv_cache=False, or a backend with a native pause"
            )

    def _transfer(self) -> None:
        """The transfer, with the phases of an engine that shares the trainer's machine around it.

        Such an engine is awake afterwards, with the weights that serve, even where the transfer failed.
        """
        shares = self._generation.blocks_training()
        if shares:
            self._wake("weights")
        try:
            producers, consumers = self._transport.start(self._generation, self._timeout_s)
            supervise(producers, consumers, self._timeout_s)
        finally:
            if shares:
                self._wake("kv_cache")

    def _wake(self, tag: str) -> None:
        answer = self._generation.prepare_for_generation(tags=[tag])
        if answer is not True:
            raise RefitParticipantError(f"prepare_for_generation(tags=[{tag!r}]) gave {answer!r}, not True")

    def _resume(self) -> None:
        limit = self._timeout_s + PAUSE_GRACE_SECONDS
        answer = self._generation.resume_generation_after_refit(timeout_s=limit)
        if answer is not True and self._recompute:
            raise RefitParticipantError(f"resume_generation_after_refit gave {answer!r}, not True")


def _refit_calls(generation: Any) -> Any:
    """What answers the calls of a refit: a GenerationInterface itself, the engine of an LLM or AsyncLLM."""
    return RefitCalls.over(generation._engine) if isinstance(generation, ModelState) else generation


def _timed(timer: Any, name: str) -> AbstractContextManager[Any]:
    return nullcontext() if timer is None else timer.time(name)
