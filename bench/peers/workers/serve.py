"""The loop of a worker: reads lines of JSON, answers each; runs in the peer's own environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

MARK = "@answer "


def answer(document: dict[str, Any]) -> None:
    """Writes one answer."""
    sys.__stdout__.write(MARK + json.dumps(document) + "\n")
    sys.__stdout__.flush()


def serve(load: Callable[[], Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Loads the engine, says so, and answers requests until the input ends.

    Args:
        load: returns the function that runs one request: {"batch", "prompt", "new", "seed"} to
            {"prefill", "decode", "whole"} in seconds.
    """
    try:
        run = load()
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    answer({"ready": True})
    for line in sys.stdin:
        try:
            answer(run(json.loads(line)))
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


def random_prompts(request: dict[str, Any], vocab_size: int) -> list[list[int]]:
    """Prompts of random ids, the same for the same seed."""
    state = request["seed"] * 2654435761 + 1
    prompts = []
    for _ in range(request["batch"]):
        ids = []
        for _ in range(request["prompt"]):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            ids.append((state >> 33) % vocab_size)
        prompts.append(ids)
    return prompts
