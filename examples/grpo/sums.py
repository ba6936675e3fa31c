#!/usr/bin/env python3
"""GRPO on SmolLM2-135M-Instruct: it learns to add two digits. Two cores are enough.

Each step rolls out a group of answers for some sums with rlgen, rewards them by code, takes one step with torch
and pushes the weights back. Prints a line a step; --output keeps the numbers as JSON (plot.py draws them).
Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from grpo import Settings, step
from rlgen import LLM, SamplingParams
from rlgen.weight_sync import MemoryTransport, WeightSynchronizer
from samples import Sample, sample_of

EVALUATE_EVERY = 5
Sum = tuple[int, int]
SUMS: list[Sum] = [(a, b) for a in range(10) for b in range(10)]


def prompt_of(one: Sum) -> str:
    """The sum after an example of another; the answer ends with its line."""
    return f"2 + 3 = 5\n{one[0]} + {one[1]} ="


def reward_of(text: str, one: Sum) -> float:
    """1 for the right number and nothing else."""
    return float(text.strip() == str(one[0] + one[1]))


def sampling(**options: Any) -> SamplingParams:
    """Short answers of one line."""
    return SamplingParams(max_tokens=5, stop="\n", **options)


def roll_out(llm: LLM, sums: Sequence[Sum], params: SamplingParams) -> list[Sample]:
    """`params.n` answers to each sum, with their rewards."""
    outputs = llm.generate([prompt_of(one) for one in sums], params, use_tqdm=False)
    return [
        sample_of(output.prompt_token_ids, answer, reward_of(answer.text, one))
        for one, output in zip(sums, outputs, strict=True)
        for answer in output.outputs
    ]


def score_difference(llm: LLM, samples: Sequence[Sample]) -> float:
    """The largest difference between the engine's log-probabilities and its own scores of the same tokens."""
    prompts = [sample.prompt_token_ids for sample in samples]
    scored = llm.score(prompts, [sample.token_ids for sample in samples], use_tqdm=False)
    pairs = zip(samples, scored, strict=True)
    return max(abs(a - b) for x, y in pairs for a, b in zip(x.logprobs, y.outputs[0].token_logprobs, strict=True))


def greedy_reward(llm: LLM) -> float:
    """The mean reward of the most probable answer to each of the hundred sums."""
    return fmean(sample.reward for sample in roll_out(llm, SUMS, sampling(temperature=0.0)))


class Run:
    """A trainer and an engine with the same weights."""

    def __init__(self, given: argparse.Namespace, llm: LLM) -> None:
        self.llm = llm
        self.settings = Settings(group=given.group, learning_rate=given.learning_rate)
        self.model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=given.learning_rate, weight_decay=0.0)
        self.synchronizer = WeightSynchronizer(llm, MemoryTransport(self.model.state_dict))

    def step(self, sums: Sequence[Sum], seed: int) -> dict[str, float]:
        """Rolls out, learns and pushes the weights. Returns the numbers of the step."""
        begin = time.monotonic()
        samples = roll_out(self.llm, sums, sampling(n=self.settings.group, seed=seed))
        rolled_out = time.monotonic()
        difference = score_difference(self.llm, samples)
        scored = time.monotonic()
        agreement = step(self.model, self.optimizer, samples, self.settings)
        learned = time.monotonic()
        self.synchronizer.sync_weights()
        return {
            "reward": fmean(sample.reward for sample in samples),
            "kl": agreement.kl,
            "largest_difference": agreement.difference,
            "score_difference": difference,
            "tokens": fmean(len(sample.token_ids) for sample in samples),
            "rollout_s": round(rolled_out - begin, 2),
            "learn_s": round(learned - scored, 2),
            "sync_s": round(time.monotonic() - learned, 2),
        }


def train(given: argparse.Namespace) -> dict[str, Any]:
    """Trains, printing a line a step, and keeps `given.output` up to date. Returns the numbers."""
    torch.set_num_threads(given.threads)
    logging.disable_progress_bar()
    draw = random.Random(given.seed)
    steps: list[dict[str, float]] = []
    greedy: list[dict[str, float]] = []
    with LLM(given.model, dtype="float32", num_threads=given.threads) as llm:
        run = Run(given, llm)
        machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "isa": llm.info["isa"]}
        numbers = {"options": options_of(given), "machine": machine, "greedy": greedy, "steps": steps}
        for number in range(given.steps + 1):
            if number % EVALUATE_EVERY == 0 or number == given.steps:
                greedy.append({"step": number, "reward": greedy_reward(llm)})
                print(f"greedy reward {greedy[-1]['reward']:.3f}", flush=True)
            if number < given.steps:
                steps.append(run.step(draw.sample(SUMS, given.sums), given.seed * 100_000 + number))
                print(f"step {number:3d}", *(f"{key} {value:.3g}" for key, value in steps[-1].items()), flush=True)
            if given.output:
                given.output.write_text(json.dumps(numbers, indent=1) + "\n")
    return numbers


def options_of(given: argparse.Namespace) -> dict[str, Any]:
    """What the numbers depend on."""
    return {name: getattr(given, name) for name in ("steps", "sums", "group", "learning_rate", "seed", "threads")}


def main() -> int:
    """Trains; 1 where the reward does not rise or `score` differs from the generation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[2] / "models" / "SmolLM2-135M-Instruct"
    parser.add_argument("--model", type=Path, default=default, help="a Hugging Face folder")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--sums", type=int, default=6, help="prompts of one step")
    parser.add_argument("--group", type=int, default=Settings.group, help="answers to each")
    parser.add_argument("--learning-rate", type=float, default=5e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a JSON file for the numbers")
    given = parser.parse_args()
    numbers = train(given)
    rewards = [one["reward"] for one in numbers["steps"]]
    exact = all(one["score_difference"] == 0.0 for one in numbers["steps"])
    return 0 if exact and fmean(rewards[-5:]) > fmean(rewards[:5]) else 1


if __name__ == "__main__":
    sys.exit(main())
