#!/usr/bin/env python3
"""Policy gradient with rollouts that never stop: weights change while completions run.

A completion may hold tokens of several versions. Each token knows its version and its log-probability under
it, so the trainer weighs it by the importance ratio of the present weights to those. The reward is the share
of tokens with an even id. Prints a line a step. Run as it stands, it needs torch and transformers.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from rlgen import AsyncLLM, RequestOutputKind, SamplingParams
from rlgen.weight_sync import MemoryTransport, WeightSynchronizer
from samples import Sample, advantages, sample_of

PROMPTS = [[3, 17], [40, 41, 42], [7], [90, 12, 55, 1]]


class Trainer(Protocol):
    """What learns. Called by one thread at a time."""

    def logprobs(self, samples: Sequence[Sample]) -> list[list[float]]:
        """Log-probabilities of the samples' tokens under the present weights."""

    def step(self, samples: Sequence[Sample], pulls: Sequence[Sequence[float]]) -> None:
        """One optimiser step up the sum of pull x log-probability over all tokens."""

    def weights(self) -> dict[str, Any]:
        """Every tensor by its Hugging Face name."""


@dataclass(frozen=True)
class Options:
    """How to roll out and learn.

    groups_per_step: prompts that one step learns from, `group` completions each. staleness: how many versions
    the oldest token of a completion may lie behind the weights that learn from it. ratio_cap: the largest
    importance ratio that counts. pause: whether generation is frozen while weights change.
    """

    steps: int = 60
    seed: int = 0
    group: int = 8
    groups_per_step: int = 1
    max_tokens: int = 48
    staleness: int = 4
    ratio_cap: float = 2.0
    pause: bool = True

    @property
    def room(self) -> int:
        """Groups that may run or wait to be learned from: the last of them is `staleness` steps away."""
        return (self.staleness + 1) * self.groups_per_step


@dataclass(frozen=True)
class Step:
    """What one step saw.

    version: of the weights that learned. lags: for each token, how many versions before. log_ratios: for each
    token, log of its importance ratio. versions: how many made one completion, at most. dropped: groups that
    were too old.
    """

    version: int
    reward: float
    lags: list[int]
    log_ratios: list[float]
    versions: int
    dropped: int

    def __str__(self) -> str:
        own = [abs(ratio) for ratio, lag in zip(self.log_ratios, self.lags, strict=True) if lag == 0]
        return (
            f"version {self.version:3d} reward {self.reward:.3f} lag {fmean(self.lags):.2f} (at most {max(self.lags)}) "
            f"versions in one completion {self.versions} ratio {fmean(map(math.exp, self.log_ratios)):.3f} "
            f"on-policy difference {f'{max(own):.1e}' if own else 'none'} dropped {self.dropped}"
        )


class Rollouts:
    """Groups of completions that run all the time, as many as `options.room`.

    A group may start while fewer than that many run or wait to be learned from. Those in front of it then take
    at most `staleness` steps, so it is not too old when its turn comes. One that was overtaken can be; it is
    dropped.
    """

    def __init__(self, llm: AsyncLLM, prompts: Sequence[list[int]], options: Options) -> None:
        self._llm = llm
        self._prompts = prompts
        self._options = options
        self._room = asyncio.Semaphore(options.room)
        self._finished: asyncio.Queue[list[Sample]] = asyncio.Queue()

    async def run(self, reward_of: Callable[[list[int]], float]) -> None:
        """Starts groups until it is cancelled, and cancels what runs then."""
        async with asyncio.TaskGroup() as tasks:
            for number in count():
                await self._room.acquire()
                tasks.create_task(self._group(number, reward_of))

    async def take(self, version: int) -> tuple[list[Sample], int]:
        """The next group that is fresh enough for `version`, and how many were dropped on the way."""
        dropped = 0
        while True:
            group = await self._finished.get()
            if version - min(min(sample.versions) for sample in group) <= self._options.staleness:
                return group, dropped
            dropped += 1
            self._room.release()

    def make_room(self, groups: int) -> None:
        """Says that so many groups have been learned from, and that the new weights serve."""
        for _ in range(groups):
            self._room.release()

    async def _group(self, number: int, reward_of: Callable[[list[int]], float]) -> None:
        params = SamplingParams(
            n=self._options.group,
            max_tokens=self._options.max_tokens,
            ignore_eos=True,
            seed=self._options.seed * 1_000_000 + number,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt = self._prompts[number % len(self._prompts)]
        async for output in self._llm.generate(prompt, params):
            samples = [sample_of(prompt, one, reward_of(one.token_ids)) for one in output.outputs]
            self._finished.put_nowait(samples)


def learn(trainer: Trainer, samples: Sequence[Sample], version: int, dropped: int, options: Options) -> Step:
    """One step of policy gradient, each token weighed by its importance ratio, cut off at `ratio_cap`."""
    tokens = sum(len(sample.token_ids) for sample in samples)
    pulls, lags, log_ratios = [], [], []
    for sample, present, gain in zip(
        samples, trainer.logprobs(samples), advantages(samples, options.group), strict=True
    ):
        row = [now - then for now, then in zip(present, sample.logprobs, strict=True)]
        pulls.append([min(math.exp(value), options.ratio_cap) * gain / tokens for value in row])
        lags += [version - made_by for made_by in sample.versions]
        log_ratios += row
    trainer.step(samples, pulls)
    versions = max(len(set(sample.versions)) for sample in samples)
    return Step(version, fmean(sample.reward for sample in samples), lags, log_ratios, versions, dropped)


async def train(
    llm: AsyncLLM,
    trainer: Trainer,
    prompts: Sequence[list[int]],
    reward_of: Callable[[list[int]], float],
    options: Options,
) -> list[Step]:
    """Rolls out and learns at the same time; one Step for each step."""
    rollouts = Rollouts(llm, prompts, options)
    synchronizer = WeightSynchronizer(llm, MemoryTransport(trainer.weights))
    steps = []
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(rollouts.run(reward_of))
        for version in range(options.steps):
            taken = [await rollouts.take(version) for _ in range(options.groups_per_step)]
            samples = [sample for group, _ in taken for sample in group]
            dropped = sum(number for _, number in taken)
            steps.append(await asyncio.to_thread(learn, trainer, samples, version, dropped, options))
            if options.pause:
                await asyncio.to_thread(synchronizer.sync_weights, version=version + 1)
            else:
                await llm.update_weights(trainer.weights(), version + 1, kv_policy="recompute")
            rollouts.make_room(options.groups_per_step)
        running.cancel()
    return steps


def share_of_even(token_ids: list[int]) -> float:
    """The reward."""
    return fmean(float(token % 2 == 0) for token in token_ids)


def main() -> int:
    """Trains a model with torch; 1 where the reward does not rise or no update landed in a completion."""
    import torch
    from transformers import AutoModelForCausalLM

    from grpo import TorchTrainer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "checkpoints" / "llama"
    parser.add_argument("--model", type=Path, default=default, help="a Hugging Face folder")
    parser.add_argument("--steps", type=int, default=Options.steps)
    parser.add_argument("--seed", type=int, default=Options.seed)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--staleness", type=int, default=Options.staleness, help="versions that a token may lie behind")
    parser.add_argument(
        "--isa",
        default="scalar",
        help="of the engine; the slow default makes rollouts of a tiny model outlast a training step, as those of a "
        "large one do",
    )
    parser.add_argument("--pause", action=argparse.BooleanOptionalAction, default=True, help="freeze during an update")
    given = parser.parse_args()
    options = Options(steps=given.steps, seed=given.seed, staleness=given.staleness, pause=given.pause)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
    llm = AsyncLLM(given.model, dtype="float32", num_threads=1, isa=given.isa, max_num_seqs=4)
    try:
        trainer = TorchTrainer(model, given.learning_rate)
        steps = asyncio.run(train(llm, trainer, PROMPTS, share_of_even, options))
    finally:
        llm.shutdown()
    print(*steps, sep="\n")
    before, after = (fmean(step.reward for step in part) for part in (steps[:8], steps[-8:]))
    mixed = sum(step.versions > 1 for step in steps)
    print(f"reward {before:.3f} -> {after:.3f}, completions of several versions in {mixed} of {len(steps)} steps")
    return 0 if after > before + 0.1 and mixed else 1


if __name__ == "__main__":
    sys.exit(main())
