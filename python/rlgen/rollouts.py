"""Reads the JSONL files that `rlgen generate` and `rlgen score` write (docs/rollouts.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, Self

SCHEMA = 1
FinishReason = Literal["stop", "length", "abort", "error"]
_FINISH_REASONS = ("stop", "length", "abort", "error")


class RolloutFormatError(ValueError):
    """A line that is no rollout of a schema this package reads; the text names file, line and key."""


@dataclass(frozen=True, slots=True)
class RolloutError:
    """Why a prompt or a sample failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """Tokens [begin, end) were made by one version of the weights.

    `oldest_kv` is the oldest version among the weights that made the keys and values they read; it
    differs from `version` only where KV was kept across an update.
    """

    begin: int
    end: int
    version: int
    oldest_kv: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sample of one prompt, or one prompt that could not be rolled out (`sample` is None).

    `logprobs[i]` is the log-probability of `token_ids[i]` in the sense of `logprobs_mode`, exact as
    a float32. Lists over positions hold (token id, log-probability) pairs, best first. `text` is None
    where the model has no tokenizer. `routed_experts`, where routes were recorded, is the text that
    `rlgen.generation.routed_experts.decode_routed_experts` reads, or nested lists; `given_routed_experts`
    is the digest of the routes that the prompt brought, if it did.
    """

    id: str
    sample: int | None
    finish_reason: FinishReason
    run_seed: int
    input_line: int | None = None
    prompt_token_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    logprobs_mode: str | None = None
    text: str | None = None
    stop_reason: int | str | None = None
    truncated: bool = False
    context_full: bool = False
    seed: int | None = None
    weight_version: int | None = None
    weight_versions: list[VersionSpan] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)
    numerics: str | None = None
    error: RolloutError | None = None
    top_logprobs: list[list[tuple[int, float]]] | None = None
    prompt_logprobs: list[float | None] | None = None
    prompt_top_logprobs: list[list[tuple[int, float]] | None] | None = None
    routed_experts: str | list[list[list[int]]] | None = None
    given_routed_experts: str | None = None

    @property
    def failed(self) -> bool:
        """True where there is an error instead of a result."""
        return self.finish_reason == "error"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The rollout of one line. Raises RolloutFormatError, naming the key."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise RolloutFormatError(f"no JSON: {error}") from error
        if not isinstance(values, dict):
            raise RolloutFormatError(f"not a JSON object: {text[:80]}")
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise RolloutFormatError(f"schema is {schema!r}; this package reads {SCHEMA}")
        return cls(**_convert(values))


def read_rollouts(path: str | PathLike[str]) -> Iterator[Rollout]:
    """Each rollout of the file, in its order.

    Raises RolloutFormatError with the file and the line number, also for a torn last line as a
    killed run leaves it (`rlgen generate --resume` mends it).
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith("\n"):
                    raise RolloutFormatError("the line is torn: no line end")
                yield Rollout.from_json(line)
            except RolloutFormatError as error:
                raise RolloutFormatError(f"{path}:{number}: {error}") from error.__cause__


def _convert(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of Rollout for the keys of one line; unknown keys are left to newer readers."""
    _require(values, ["id", "sample", "finish_reason", "run_seed"])
    if values["finish_reason"] not in _FINISH_REASONS:
        raise RolloutFormatError(f"finish_reason is {values['finish_reason']!r}")
    if values["sample"] is None:
        _require(values, ["input_line", "error"])
    else:
        _require(values, ["prompt_token_ids", "token_ids", "logprobs", "logprobs_mode", "sampling", "numerics"])
        if len(values["logprobs"]) != len(values["token_ids"]):
            counts = f"{len(values['logprobs'])} logprobs for {len(values['token_ids'])} token_ids"
            raise RolloutFormatError(counts)
    known = {key: value for key, value in values.items() if key in Rollout.__dataclass_fields__}
    try:
        if known.get("error") is not None:
            known["error"] = RolloutError(**known["error"])
        if "weight_versions" in known:
            known["weight_versions"] = [VersionSpan(**span) for span in known["weight_versions"]]
        for key in ("top_logprobs", "prompt_top_logprobs"):
            if known.get(key) is not None:
                known[key] = [_pairs(position) for position in known[key]]
    except TypeError as error:
        raise RolloutFormatError(str(error)) from error
    return known


def _pairs(position: list[list[Any]] | None) -> list[tuple[int, float]] | None:
    """The (token id, log-probability) pairs of one position; position 0 of a prompt has none."""
    return None if position is None else [(token, logprob) for token, logprob in position]


def _require(values: dict[str, Any], keys: list[str]) -> None:
    for key in keys:
        if key not in values:
            raise RolloutFormatError(f'key "{key}" is missing')
