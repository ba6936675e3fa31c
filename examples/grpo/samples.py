"""What a trainer learns from: completions with rewards. Plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from rlgen import CompletionOutput


@dataclass(frozen=True)
class Sample:
    """One completion as the rollout engine gave it.

    logprobs[i]: of token_ids[i], under the weights that drew it. versions[i]: which weights those were.
    """

    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    reward: float
    versions: list[int] = field(default_factory=list)


def sample_of(prompt_token_ids: list[int], completion: CompletionOutput, reward: float) -> Sample:
    """The completion with its reward. Raises the error of one that failed."""
    if completion.error is not None:
        raise completion.error
    versions = [span.version for span in completion.weight_versions for _ in range(span.begin, span.end)]
    return Sample(prompt_token_ids, completion.token_ids, completion.token_logprobs, reward, versions)


def advantages(samples: Sequence[Sample], group: int) -> list[float]:
    """Each reward against the mean of its group, in units of the group's spread. A group's samples stand together."""
    found = []
    for begin in range(0, len(samples), group):
        rewards = [sample.reward for sample in samples[begin : begin + group]]
        mean, spread = fmean(rewards), stdev(rewards)
        found += [(reward - mean) / (spread + 1e-4) for reward in rewards]
    return found
