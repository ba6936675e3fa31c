"""The calls of a refit, as the contract with a trainer names them, over one engine."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, Self

from rlgen import _native, futures
from rlgen.engine import Engine
from rlgen.errors import DeadlineError, RefitAborted, WrongStateError
from rlgen.weights import KvPolicy, NamedTensors, UpdateOptions, send, send_checkpoint

_IPC_SECONDS = 120.0


class RefitCalls:
    """What `rlgen.weight_sync.WeightSynchronizer` drives and its transports feed. Thread-safe.

    A class that inherits it calls `_drive` first. `RefitCalls.over(engine)` is one for an engine alone.
    """

    @classmethod
    def over(cls, engine: Engine) -> Self:
        """The calls for an engine that somebody else owns."""
        calls = cls()
        calls._drive(engine)
        return calls

    def _drive(self, engine: Engine) -> None:
        """Sets the engine that all calls are about."""
        self._engine = engine
        self._state_dict_info: dict[str, Any] | None = None
        self._endpoint = _native.ipc_endpoint(tempfile.gettempdir(), uuid.uuid4().hex, "0")

    def pause_generation_for_refit(self, *, clear_cache: bool, timeout_s: float | None = None) -> bool:
        """Freezes what is in flight on every engine; with clear_cache it rebuilds its KV afterwards. True.

        Raises DeadlineError (a TimeoutError) when an engine has not paused after timeout_s seconds (360 for None).
        """
        self._engine.native.pause("keep", clear_cache, timeout_s)
        return True

    def resume_generation_after_refit(self, *, timeout_s: float | None = None) -> bool:
        """Goes on after pause_generation_for_refit, or changes nothing. True."""
        self._engine.native.resume(timeout_s)
        return True

    def set_rollout_weight_version(self, version: int) -> None:
        """Names the served weights, for every token made from then on. Not below the last update's version."""
        self._engine.native.set_weight_version(version)

    @property
    def weight_version(self) -> int:
        """The version of the weights that serve; a loaded checkpoint is 0."""
        return self._engine.native.weight_version()

    def blocks_training(self) -> bool:
        """True when the engines give their memory back while the trainer works. False here."""
        return False

    def prepare_refit_info(self, state_dict_info: dict[str, Any] | None) -> list[str] | None:
        """Learns which tensors a refit brings: name to (shape, dtype), in order. None: nothing to quantise."""
        self._state_dict_info = None if state_dict_info is None else dict(state_dict_info)
        return None

    @property
    def ipc_endpoint(self) -> str:
        """Where `rlgen.weight_sync.send_weights` meets update_weights_via_ipc_zmq; another one for every engine."""
        return self._endpoint

    def update_weights_via_ipc_zmq(self) -> list[Any]:
        """Receives an update from a trainer's process on this machine, at `ipc_endpoint`.

        prepare_refit_info has said what comes. Returns one future for all engines, which gives True once they
        serve the new weights. Where it fails the old ones serve, complete: IPCWeightManifestError names tensors that
        are missing, surplus or there twice, DeadlineError a sender that was silent for 120 s.
        """
        if self._state_dict_info is None:
            raise WrongStateError("nobody said which tensors will come: call prepare_refit_info first")
        manifest = _manifest(self._state_dict_info)
        options = _native.UpdateOptions(uuid.uuid4().hex, kv_policy=self._kv_policy())

        def receive() -> bool:
            try:
                self._engine.native.receive_ipc(self._endpoint, manifest, options, _IPC_SECONDS)
            finally:
                self._engine.forward_log()
            return True

        return [futures.start(receive, "rlgen-ipc-in")]

    def update_weights_from_tensors(
        self,
        named_tensors: NamedTensors,
        *,
        version: int | None = None,
        refit_timeout_s: float | None = None,
        cast: bool = False,
    ) -> list[Any]:
        """Receives an update from tensors of this process, as `LLM.update_weights` does.

        Returns one future, which gives True once every engine serves the new weights; None for version is the
        served one + 1. cast: floating types that differ from the stored ones are converted. Requests in flight
        rebuild their KV, unless generation is paused: then the pause has said what becomes of it. Where it
        fails the old weights serve, complete: RefitAborted after refit_timeout_s.
        """
        return self._update(partial(send, self._engine.native, named_tensors, version), refit_timeout_s, cast)

    def update_weights_from_disk(
        self,
        folder: str | PathLike[str],
        *,
        version: int | None = None,
        refit_timeout_s: float | None = None,
        cast: bool = False,
    ) -> list[Any]:
        """Receives an update from a checkpoint on disk; otherwise as update_weights_from_tensors."""
        return self._update(partial(send_checkpoint, self._engine.native, folder, version), refit_timeout_s, cast)

    def _update(self, send_with: Callable[[UpdateOptions], int], timeout_s: float | None, cast: bool) -> list[Any]:
        options: UpdateOptions = {"kv_policy": self._kv_policy(), "timeout_s": timeout_s, "cast": cast}

        def update() -> bool:
            try:
                send_with(options)
            except DeadlineError as error:
                raise RefitAborted(f"{error}; the old weights serve") from error
            finally:
                self._engine.forward_log()
            return True

        return [futures.start(update, "rlgen-weights-in")]

    def _kv_policy(self) -> KvPolicy:
        """A pause has said what becomes of the KV of requests in flight; without one they rebuild it."""
        return "keep" if self._engine.native.paused() else "recompute"


def _manifest(state_dict_info: Mapping[str, Any]) -> list[tuple[str, str, list[int], str]]:
    return [
        (name, str(dtype).removeprefix("torch."), [int(size) for size in shape], "")
        for name, (shape, dtype) in state_dict_info.items()
    ]
