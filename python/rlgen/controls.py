"""What a trainer does with a running model beside generating: pause it, change its weights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from os import PathLike
from typing import Any, Literal, Unpack

from rlgen.engine import Engine
from rlgen.errors import BadInputError
from rlgen.weights import (
    NamedTensors,
    TensorInfo,
    UpdateOptions,
    UpdateReport,
    WeightUpdate,
    begin,
    checksums,
    send,
    send_checkpoint,
)

PauseMode = Literal["keep", "wait", "abort", "retract"]
MemoryTag = Literal["weights", "kv_cache"]
_MODES = ("keep", "wait", "abort", "retract")
_TAGS: tuple[MemoryTag, ...] = ("weights", "kv_cache")


def check_mode(mode: str) -> None:
    """Raises BadInputError, which lists the modes, for one that is not known."""
    if mode not in _MODES:
        raise BadInputError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")


def check_tags(tags: Sequence[str]) -> tuple[bool, bool]:
    """Whether weights are among the tags, and the KV cache. Raises BadInputError for another tag, or none."""
    unknown = [tag for tag in tags if tag not in _TAGS]
    if unknown or isinstance(tags, str) or not tags:
        raise BadInputError(f"tags are {tags!r}; give a list of {', '.join(_TAGS)}")
    return "weights" in tags, "kv_cache" in tags


class ModelState:
    """What a model says of itself."""

    _engine: Engine

    @property
    def info(self) -> dict[str, Any]:
        """Facts of the loaded model: numerics, vocab_size, max_model_len, eos_token_ids, ..."""
        return dict(self._engine.info)

    def metrics(self) -> dict[str, int]:
        """Counters since the start and gauges of now, over all engines."""
        return self._engine.native.metrics()

    @property
    def paused(self) -> bool:
        """True from a pause to the resume."""
        return self._engine.native.paused()

    @property
    def weight_version(self) -> int:
        """The version of the weights that serve; a loaded checkpoint is 0."""
        return self._engine.native.weight_version()

    @property
    def last_update(self) -> UpdateReport | None:
        """What the last update brought that was served; None before the first."""
        counts = self._engine.native.last_update()
        return None if counts is None else UpdateReport(*counts)


class Controls(ModelState):
    """The controls of a model, each call waiting until it is done. Of any thread."""

    def pause(self, mode: PauseMode = "keep", *, clear_cache: bool = False, timeout_s: float | None = None) -> None:
        """Pauses generation.

        mode: `keep` freezes running requests; `wait` lets them end and starts no new ones; `abort` ends them
        with finish reason "abort"; `retract` puts them back in the queue. clear_cache: cached keys and values
        are dropped, and frozen requests rebuild theirs. timeout_s: seconds until DeadlineError; None for 360.

        The same pause again changes nothing; another mode while paused raises WrongStateError.
        """
        check_mode(mode)
        self._engine.native.pause(mode, clear_cache, timeout_s)

    def resume(self, *, timeout_s: float | None = None) -> None:
        """Goes on after a pause. Without one it changes nothing."""
        self._engine.native.resume(timeout_s)

    def update_weights(
        self, named_tensors: NamedTensors, version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> int:
        """Replaces the weights in one transaction, between two steps; returns the version that serves then.

        named_tensors: every tensor under its Hugging Face name, of torch or numpy, on the CPU, contiguous, of
        the type that the model was loaded with; read without a copy. version: None for the served one + 1. It must
        be above the served one unless allow_rollback is set. options: see UpdateOptions.

        Raises BadInputError for a tensor that is missing, surplus, twice, of another shape or type, naming it;
        CorruptDataError for a digest that differs; DeadlineError after timeout_s. The old weights serve then, as
        they were.
        """
        try:
            return send(self._engine.native, named_tensors, version, options)
        finally:
            self._engine.forward_log()

    def update_weights_from_disk(
        self, folder: str | PathLike[str], version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> int:
        """Replaces the weights by those of a checkpoint on disk, as `update_weights` does.

        folder: in Hugging Face's layout, complete, and left alone meanwhile; `rlgen.weights.wait_for_version`
        finds the newest one that a trainer has finished. Raises BadInputError where it is not there, and
        CorruptDataError for files that are damaged.
        """
        try:
            return send_checkpoint(self._engine.native, folder, version, options)
        finally:
            self._engine.forward_log()

    def begin_update(
        self, manifest: Sequence[TensorInfo], version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> WeightUpdate:
        """Begins an update whose tensors are then written one by one or in pieces; see WeightUpdate.

        manifest: what will come. version and options: as `update_weights` has them. Raises
        WrongStateError while another update is open.
        """
        return begin(self._engine.native, manifest, version, options)

    def set_weight_version(self, version: int) -> None:
        """Gives the served weights another number, for the tokens made from then on: not below the last update's."""
        self._engine.native.set_weight_version(version)

    def weight_checksums(self) -> dict[str, TensorInfo]:
        """Type, shape and digest (XXH3-128 of the bytes) of every tensor as it is served."""
        return checksums(self._engine.native)

    def sleep(self, level: int = 1, *, tags: Sequence[MemoryTag] = ("weights", "kv_cache")) -> None:
        """Gives memory back to the system; new requests are refused until `wake_up`.

        level: 1 keeps the weights in a file, 2 drops them, so that only an update brings weights back. tags:
        `weights`, `kv_cache` or both. Requests in flight stand still, and go on with the same bits.
        """
        self._engine.native.sleep(level, *check_tags(tags))

    def wake_up(self, tags: Sequence[MemoryTag] | None = None) -> None:
        """Brings back what sleeps, or of it what `tags` names. Cheap where nothing sleeps."""
        self._engine.native.wake(*check_tags(tags or _TAGS))

    @property
    def is_sleeping(self) -> bool:
        """True while weights or KV cache sleep."""
        return any(self._engine.native.asleep())

    def get_weight(self, name: str) -> Any:
        """A copy of a tensor as it is served, which speaks DLPack: `torch.from_dlpack`, `numpy.from_dlpack` (which
        knows no bfloat16).
        """
        return self._engine.native.read_weight(name)

    def invalidate_kv_cache(self) -> bool:
        """Drops all cached keys and values, those of running requests too; True when none is read any more."""
        return self._engine.native.invalidate_kv_cache()


class AsyncControls(ModelState):
    """The same on an event loop, which goes on meanwhile."""

    async def pause(
        self, mode: PauseMode = "keep", *, clear_cache: bool = False, timeout_s: float | None = None
    ) -> None:
        """Pauses generation, as `LLM.pause`."""
        check_mode(mode)
        await asyncio.to_thread(self._engine.native.pause, mode, clear_cache, timeout_s)

    async def resume(self, *, timeout_s: float | None = None) -> None:
        """Goes on after a pause, as `LLM.resume`."""
        await asyncio.to_thread(self._engine.native.resume, timeout_s)

    async def update_weights(
        self, named_tensors: NamedTensors, version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> int:
        """Replaces the weights in one transaction, as `LLM.update_weights`."""
        try:
            return await asyncio.to_thread(send, self._engine.native, named_tensors, version, options)
        finally:
            self._engine.forward_log()

    async def update_weights_from_disk(
        self, folder: str | PathLike[str], version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> int:
        """Replaces the weights by those of a checkpoint on disk, as `LLM.update_weights_from_disk`."""
        try:
            return await asyncio.to_thread(send_checkpoint, self._engine.native, folder, version, options)
        finally:
            self._engine.forward_log()

    async def begin_update(
        self, manifest: Sequence[TensorInfo], version: int | None = None, **options: Unpack[UpdateOptions]
    ) -> WeightUpdate:
        """Begins an update, as `LLM.begin_update`; the calls of a WeightUpdate block.

        Where the task is cancelled meanwhile the update is dropped as soon as it has begun.
        """
        begun: Future[WeightUpdate] = Future()

        def work() -> None:
            try:
                begun.set_result(begin(self._engine.native, manifest, version, options))
            except BaseException as error:
                begun.set_exception(error)

        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            begun.add_done_callback(_drop)  # by the thread that begins it, whatever becomes of the loop
            raise
        return begun.result()

    async def sleep(self, level: int = 1, *, tags: Sequence[MemoryTag] = ("weights", "kv_cache")) -> None:
        """Gives memory back to the system, as `LLM.sleep`."""
        await asyncio.to_thread(self._engine.native.sleep, level, *check_tags(tags))

    async def wake_up(self, tags: Sequence[MemoryTag] | None = None) -> None:
        """Brings back what sleeps, as `LLM.wake_up`."""
        await asyncio.to_thread(self._engine.native.wake, *check_tags(tags or _TAGS))

    @property
    def is_sleeping(self) -> bool:
        """True while weights or KV cache sleep."""
        return any(self._engine.native.asleep())

    async def set_weight_version(self, version: int) -> None:
        """Gives the served weights another number, as `LLM.set_weight_version`."""
        await asyncio.to_thread(self._engine.native.set_weight_version, version)

    async def weight_checksums(self) -> dict[str, TensorInfo]:
        """Type, shape and digest of every tensor as it is served, as `LLM.weight_checksums`."""
        return await asyncio.to_thread(checksums, self._engine.native)

    async def get_weight(self, name: str) -> Any:
        """A copy of a tensor as it is served, as `LLM.get_weight`."""
        return await asyncio.to_thread(self._engine.native.read_weight, name)

    async def invalidate_kv_cache(self) -> bool:
        """Drops all cached keys and values, as `LLM.invalidate_kv_cache`."""
        return await asyncio.to_thread(self._engine.native.invalidate_kv_cache)


def _drop(begun: Future[WeightUpdate]) -> None:
    """Aborts an update whose begin nobody waits for any more."""
    if begun.exception() is None:
        begun.result().abort()
