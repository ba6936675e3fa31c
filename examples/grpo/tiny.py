#!/usr/bin/env python3
"""GRPO on a tiny random model, in seconds: rlgen rolls out, PyTorch learns, weights go over each step.

The reward of a completion is the share of its tokens with an even id. Prints a line a step, and fails
where the reward does not rise. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM

from grpo import Settings, step
from rlgen import LLM, SamplingParams
from rlgen.weight_sync import MemoryTransport, WeightSynchronizer
from samples import Sample, sample_of

PROMPTS = [[3, 17], [40, 41, 42], [7], [90, 12, 55, 1]]


def reward_of(token_ids: list[int]) -> float:
    """The share of even ids."""
    return fmean(float(token % 2 == 0) for token in token_ids)


def roll_out(llm: LLM, settings: Settings, seed: int) -> list[Sample]:
    """A group of completions of each prompt, with rewards."""
    params = SamplingParams(n=settings.group, max_tokens=8, ignore_eos=True, seed=seed, detokenize=False)
    return [
        sample_of(output.prompt_token_ids, sample, reward_of(sample.token_ids))
        for output in llm.generate(PROMPTS, params, use_tqdm=False)
        for sample in output.outputs
    ]


def score_difference(llm: LLM, samples: list[Sample]) -> float:
    """The largest difference between the engine's log-probabilities and its own scores; 0 by promise."""
    params = SamplingParams(ignore_eos=True, detokenize=False)
    prompts = [sample.prompt_token_ids for sample in samples]
    scored = llm.score(prompts, [sample.token_ids for sample in samples], params, use_tqdm=False)
    pairs = zip(samples, scored, strict=True)
    return max(abs(a - b) for x, y in pairs for a, b in zip(x.logprobs, y.outputs[0].token_logprobs, strict=True))


def train(model_folder: Path, seed: int, steps: int) -> list[float]:
    """The mean reward of each step."""
    torch.manual_seed(seed)
    settings = Settings(group=8, learning_rate=3e-3)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    rewards = []
    with LLM(model_folder, dtype="float32", num_threads=1) as llm:
        synchronizer = WeightSynchronizer(llm, MemoryTransport(model.state_dict))
        for number in range(steps):
            samples = roll_out(llm, settings, seed * 1000 + number)
            difference = score_difference(llm, samples)
            if difference != 0.0:
                raise AssertionError(f"generation and score differ by {difference}")
            agreement = step(model, optimizer, samples, settings)
            synchronizer.sync_weights()
            rewards.append(fmean(sample.reward for sample in samples))
            print(f"seed {seed} step {number:2d} reward {rewards[-1]:.3f} kl {agreement.kl:.2e}")
    return rewards


def main() -> int:
    """Trains once for each seed; 1 where a reward does not rise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "checkpoints" / "llama"
    parser.add_argument("--model", type=Path, default=default, help="a Hugging Face folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    good = True
    for seed in range(arguments.seeds):
        rewards = train(arguments.model, seed, arguments.steps)
        before, after = fmean(rewards[:3]), fmean(rewards[-3:])
        print(f"seed {seed}: reward {before:.3f} -> {after:.3f}")
        good = good and after > before + 0.1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
