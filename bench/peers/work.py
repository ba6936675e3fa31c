"""What is measured, and how a measurement looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """One row: `batch` prompts of `prompt` random ids, `new` ids after each, greedy, nothing stops early.

    Attributes:
        name: as `rlgen bench` names the row.
        batch: sequences at a time.
        prompt: ids of each prompt.
        new: new ids of each sequence; 1 where only the prompts count.
    """

    name: str
    batch: int
    prompt: int
    new: int

    @property
    def is_prefill(self) -> bool:
        """Whether the prompts are what is measured."""
        return self.new == 1


@dataclass(frozen=True)
class Timing:
    """Seconds that one run of a row took.

    Attributes:
        prefill: until every sequence has its first id; None where the engine does not say.
        decode: from there to the last id; None where the engine does not say.
        whole: both together.
        fraction: of what the machine allowed in this run, the share that was reached; None where the
            engine does not say.
    """

    prefill: float | None
    decode: float | None
    whole: float
    fraction: float | None = None


WORK: tuple[Work, ...] = (
    Work("prefill/2048", 1, 2048, 1),
    *(Work(f"decode/{batch}", batch, 128, 128) for batch in (1, 8, 32, 64)),
)
MEASURES = {
    "prefill": "prompt tokens a second",
    "decode": "new tokens a second once all prompts are done",
    "whole": "new tokens a second, prompts included",
}


def rates(work: Work, timing: Timing) -> dict[str, float]:
    """Tokens a second of each measure that the row has and the engine could tell."""
    prompt_tokens, new_tokens = work.batch * work.prompt, work.batch * work.new
    if work.is_prefill:
        return {"prefill": prompt_tokens / timing.whole}
    found = {"whole": new_tokens / timing.whole}
    if timing.prefill:
        found["prefill"] = prompt_tokens / timing.prefill
    if timing.decode:
        # The first id of each sequence comes with the prompt.
        found["decode"] = (new_tokens - work.batch) / timing.decode
    return found


def choose_work(names: list[str]) -> list[Work]:
    """The rows of these names, in their order; all without names.

    Raises:
        ValueError: a name is no row's.
    """
    known = {work.name: work for work in WORK}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no row is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [work for work in WORK if not names or work.name in names]


def timing_of(answer: dict[str, Any]) -> Timing:
    """A timing as a worker writes it."""
    return Timing(answer.get("prefill"), answer.get("decode"), answer["whole"])
