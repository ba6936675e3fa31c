"""Results that come later."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, overload

from rlgen.errors import BadInputError, DeadlineError, InternalError

T = TypeVar("T")

_MOST_PENDING = 10_000  # results of one process that Ray waits for at once


def start(work: Callable[[], T], name: str) -> Future[T]:
    """Runs `work` on a thread of its own, called `name`, and returns its result to come.

    Where Ray is running the result is an object reference instead, so that `ray.get` takes it; `wait` takes both.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    ray = _running_ray()
    return future if ray is None else _as_reference(ray, future)


@overload
def wait(futures: Future[T], timeout_s: float | None = None) -> T: ...
@overload
def wait(futures: Sequence[Any], timeout_s: float | None = None) -> list[Any]: ...
def wait(futures: Any, timeout_s: float | None = None) -> Any:
    """The result of a future, or the results of a list of them, in its order.

    Takes what rlgen's members give out and references of Ray. The first error in that order is raised, of a
    reference the one that its work raised; DeadlineError (a TimeoutError) when not all are there after
    `timeout_s` seconds. BadInputError for a timeout_s that is no number: True counts as none.
    """
    if isinstance(timeout_s, bool) or timeout_s != timeout_s:
        raise BadInputError(f"timeout_s is {timeout_s}; it must be None or a number")
    if not isinstance(futures, list | tuple):
        return wait([futures], timeout_s)[0]
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    return [_result(future, deadline, timeout_s) for future in futures]


def is_done(future: Any) -> bool:
    """True once the result is there, or an error in its place."""
    if isinstance(future, Future):
        return future.done()
    ray = _running_ray()
    if ray is None or not isinstance(future, ray.ObjectRef):
        raise BadInputError(f"a {type(future).__name__} is no future of rlgen and no reference of a running Ray")
    return bool(ray.wait([future], timeout=0)[0])


def _result(future: Any, deadline: float | None, timeout_s: float | None) -> Any:
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if isinstance(future, Future):
        if not _settles(future, left):
            raise DeadlineError(f"a result was not there after {timeout_s} s")
        return future.result()
    ray = _running_ray()
    if ray is None or not isinstance(future, ray.ObjectRef):
        raise BadInputError(f"a {type(future).__name__} is no future of rlgen and no reference of a running Ray")
    try:
        return ray.get(future, timeout=left)
    except ray.exceptions.GetTimeoutError as error:
        raise DeadlineError(f"a result was not there after {timeout_s} s") from error
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


def _settles(future: Future[Any], seconds: float | None) -> bool:
    """Waits until the future is done. Its own error is not raised here."""
    try:
        future.exception(seconds)
    except TimeoutError:
        return future.done()
    return True


def _running_ray() -> Any:
    """The module of Ray where it was imported and is running."""
    ray = sys.modules.get("ray")
    return ray if ray is not None and ray.is_initialized() else None


def _as_reference(ray: Any, future: Future[Any]) -> Any:
    """A reference that gets the result of `future`, through the actor of this process."""
    promises, key = _promises_of(ray), uuid.uuid4().hex
    reference = promises.get.remote(key)

    def tell(done: Future[Any]) -> None:
        error = done.exception()
        try:
            promises.tell.remote(key, None if error else done.result(), error)
        except Exception as failure:
            promises.tell.remote(key, None, InternalError(f"Ray cannot carry {error or 'the result'!r}: {failure}"))

    future.add_done_callback(tell)
    return reference


_lock = threading.Lock()
_actors: dict[tuple[str, str], Any] = {}  # at most one, by node and job; guarded by _lock


def _promises_of(ray: Any) -> Any:
    """The actor that holds what is not there yet: one for this process, beside it, and for the Ray that it is in."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    context = ray.get_runtime_context()
    node, job = context.get_node_id(), context.get_job_id()
    with _lock:
        if (node, job) not in _actors:
            _actors.clear()
            here = NodeAffinitySchedulingStrategy(node, soft=False)
            options = {"num_cpus": 0, "max_concurrency": _MOST_PENDING, "scheduling_strategy": here}
            _actors[node, job] = ray.remote(**options)(_Promises).remote()
        return _actors[node, job]


class _Promises:
    """Holds results until they are asked for, or whoever asks until they are told. An actor with an event loop."""

    def __init__(self) -> None:
        self._told: dict[str, asyncio.Future[tuple[Any, BaseException | None]]] = {}

    def _of(self, key: str) -> asyncio.Future[tuple[Any, BaseException | None]]:
        return self._told.setdefault(key, asyncio.get_running_loop().create_future())

    async def tell(self, key: str, value: Any, error: BaseException | None) -> None:
        self._of(key).set_result((value, error))

    async def get(self, key: str) -> Any:
        value, error = await self._of(key)
        del self._told[key]
        if error is not None:
            raise error
        return value
