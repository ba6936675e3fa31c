"""What a finished or running request gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlgen.rollouts import FinishReason, VersionSpan

if TYPE_CHECKING:
    from rlgen._native import Piece as NativePiece
    from rlgen._native import Rollout as NativeRollout

Alternatives = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Logprob:
    """One token that could have stood at a position.

    logprob: natural log of its probability. rank: 1 for the most probable; None where it is not known,
    because the token is not among the alternatives that were asked for.
    """

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


PositionLogprobs = dict[int, Logprob]


@dataclass(slots=True)
class CompletionOutput:
    """One sample of a prompt.

    token_ids: what was drawn, a stop token included. token_logprobs[i]: log-probability of token_ids[i] in
    the sense of `logprobs_mode`, exact as a float32. logprobs[i]: the drawn token and the alternatives
    asked for, by id; None unless `SamplingParams.logprobs` was set. weight_versions: which weights made
    which tokens. seed: with it and `index` the sample comes again. truncated: ended by a length limit;
    context_full: no room was left in the context. routed_experts: a numpy array [rows, layers, top-k], row i
    of the token at position i + `SamplingParams.routed_experts_prompt_start` of prompt and output, of all
    tokens but the last; None unless the engine records routes. error: why the sample failed (finish_reason "error"); it
    has no tokens then.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    token_logprobs: list[float] = field(default_factory=list)
    logprobs: list[PositionLogprobs] | None = None
    logprobs_mode: str = "processed"
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    truncated: bool = False
    context_full: bool = False
    weight_versions: list[VersionSpan] = field(default_factory=list)
    seed: int | None = None
    numerics: str = ""
    error: Exception | None = None
    routed_experts: Any = field(default=None, compare=False)

    @property
    def cumulative_logprob(self) -> float:
        """The sum of token_logprobs."""
        return sum(self.token_logprobs)

    def finished(self) -> bool:
        """True once the sample has ended."""
        return self.finish_reason is not None


@dataclass(slots=True)
class RequestOutput:
    """All samples of one prompt.

    prompt: the text, where text was given. prompt_logprobs: for each position of the prompt what
    `CompletionOutput.logprobs` is for the output, None for the first; None unless
    `SamplingParams.prompt_logprobs` was set. num_cached_tokens: how much of the prompt came from the prefix
    cache, which depends on what ran before. sampling: every parameter in force, as `rlgen generate` writes it.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    prompt_logprobs: list[PositionLogprobs | None] | None = None
    num_cached_tokens: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


def position_logprobs(
    token_ids: Sequence[int],
    logprobs: Sequence[float],
    top: Sequence[Alternatives],
    decode: Callable[[int], str | None],
) -> list[PositionLogprobs]:
    """For each token a mapping of it and its alternatives, the drawn token first."""
    positions = []
    for token, logprob, alternatives in zip(token_ids, logprobs, top, strict=True):
        ranks = {other: rank for rank, (other, _) in enumerate(alternatives, 1)}
        entry = {token: Logprob(logprob, ranks.get(token), decode(token))}
        for other, value in alternatives:
            entry.setdefault(other, Logprob(value, ranks[other], decode(other)))
        positions.append(entry)
    return positions


def completion_of(
    rollout: NativeRollout, mode: str, decode: Callable[[int], str | None] | None
) -> CompletionOutput:
    """The finished sample `rollout`, with `logprobs` where `decode` is given."""
    token_ids, logprobs = rollout.token_ids, rollout.logprobs
    return CompletionOutput(
        index=rollout.sample,
        text=rollout.text,
        token_ids=token_ids,
        token_logprobs=logprobs,
        logprobs=position_logprobs(token_ids, logprobs, rollout.top_logprobs, decode) if decode else None,
        logprobs_mode=mode,
        finish_reason=rollout.finish_reason,
        stop_reason=rollout.stop_reason,
        truncated=rollout.truncated,
        context_full=rollout.context_full,
        weight_versions=[VersionSpan(*span) for span in rollout.version_spans],
        seed=rollout.seed,
        numerics=rollout.numerics,
        error=rollout.error,
        routed_experts=routes_of(rollout),
    )


def routes_of(source: NativeRollout | NativePiece) -> Any:
    """The routes of a sample or of a piece of it as an array of numpy; None where there are none."""
    routes = source.routed_experts
    if routes is None:
        return None
    import numpy

    return numpy.array(numpy.from_dlpack(routes))


def join_routes(parts: Sequence[Any]) -> Any:
    """Arrays of routes one after the other."""
    import numpy

    return numpy.concatenate(parts)


def prompt_logprobs_of(rollout: NativeRollout, decode: Callable[[int], str | None]) -> list[PositionLogprobs | None]:
    """What `RequestOutput.prompt_logprobs` says, from a sample that asked for it."""
    return [
        None,
        *position_logprobs(
            rollout.prompt_token_ids[1:], rollout.prompt_logprobs, rollout.prompt_top_logprobs, decode
        ),
    ]
