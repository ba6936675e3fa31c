"""Waiting for both sides of a transfer at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rlgen import futures
from rlgen.errors import BadInputError, DeadlineError, RefitParticipantError

_LOOK_SECONDS = 0.01


def supervise(producers: Sequence[Any], consumers: Sequence[Any], timeout_s: float) -> None:
    """Waits until every producer and every consumer of weights is done.

    Both are futures of rlgen or references of Ray. An error of either side is raised as soon as it is there, a
    consumer's first, while the other side may still hang. A consumer must give exactly True, a producer None.

    Raises RefitParticipantError (a RuntimeError) with role and place, DeadlineError (a TimeoutError) after
    timeout_s seconds, BadInputError where one side is empty.
    """
    for role, group in (("producer", producers), ("consumer", consumers)):
        if not group:
            raise BadInputError(f"a weight transfer needs at least one {role}")
    waiting = [("consumer", place, future) for place, future in enumerate(consumers)]
    waiting += [("producer", place, future) for place, future in enumerate(producers)]
    deadline = time.monotonic() + timeout_s
    while waiting:
        left = []
        for role, place, future in waiting:
            if futures.is_done(future):
                _check(role, place, future)
            else:
                left.append((role, place, future))
        waiting = left
        if not waiting:
            return
        if time.monotonic() > deadline:
            names = ", ".join(f"{role} {place}" for role, place, _ in waiting)
            raise DeadlineError(f"the weight transfer was not done after {timeout_s} s; still running: {names}")
        time.sleep(_LOOK_SECONDS)


def _check(role: str, place: int, future: Any) -> None:
    try:
        result = futures.wait(future)
    except Exception as error:
        raise RefitParticipantError(f"{role} {place} of the weight transfer failed: {error}") from error
    wanted = True if role == "consumer" else None
    if result is not wanted:
        raise RefitParticipantError(f"{role} {place} of the weight transfer gave {result!r}, not {wanted}")
