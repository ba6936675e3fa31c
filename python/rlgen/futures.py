"""Results that come later."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, overload

from rlgen.errors import BadInputError, DeadlineError

T = TypeVar("T")


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

    Takes what rlgen's members give out and references of Ray. The first error in that order is raised;
    DeadlineError (a TimeoutError) when not all are there after `timeout_s` seconds.
    """
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
    """A reference that gets the result of `future`: of an actor that waits to be told it."""
    promise = ray.remote(num_cpus=0, max_concurrency=2)(_Promise).remote()
    reference = promise.get.remote()

    def tell(done: Future[Any]) -> None:
        error = done.exception()
        promise.set.remote(None if error else done.result(), error)

    future.add_done_callback(tell)
    return reference


class _Promise:
    """Holds a result until it is asked for."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def set(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self._done.set()

    def get(self) -> Any:
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value
