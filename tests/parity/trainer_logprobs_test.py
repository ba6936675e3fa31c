"""A trainer's log-probabilities, of torch in float32, against those of the rollouts that it learns from.

Needs torch and transformers: tests/slow/python_with_torch runs it.
"""

from __future__ import annotations

import asyncio
import sys
import unittest
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "grpo"))

from grpo import token_logprobs
from samples import Sample, sample_of

from rlgen import LLM, AsyncLLM, RequestOutputKind, SamplingParams
from rlgen.weight_sync import MemoryTransport, WeightSynchronizer

CHECKPOINTS = ROOT / "tests" / "fixtures" / "checkpoints"
# Transformers holds the experts of a layer as one tensor: updates bring them in that form.
EXPERTS = ("gpt_oss", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe")
FAMILIES = ("llama", "llama_bias", "llama_tied", "mistral", "qwen2", "qwen3", "smollm3", *EXPERTS)
DEMO_MODEL = ROOT / "models" / "SmolLM2-135M-Instruct"
# Both sides add the same float32 products in other orders.
SAME = 2e-4
PROMPTS = [[3, 17, 5, 9], [40], [7, 7, 7, 90, 12, 55, 1, 2, 3, 4, 5, 6, 8, 10]]


def trainer_of(folder: Path) -> Any:
    """The checkpoint in transformers, as a trainer holds it."""
    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def disturb(model: Any, seed: int) -> None:
    """Other weights, as after a few steps of learning."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * parameter.abs().mean() * torch.randn(parameter.shape, generator=generator)


def trainer_values(model: Any, samples: list[Sample]) -> list[list[float]]:
    """The trainer's log-probabilities, a list a sample."""
    with torch.no_grad():
        values, mask = token_logprobs(model, samples)
    return [row[places].tolist() for row, places in zip(values, mask, strict=True)]


class ParityTest(unittest.TestCase):
    """Rollouts of float32 engines."""

    def difference(self, model: Any, samples: list[Sample]) -> float:
        """The largest difference of a token, with as many values on both sides."""
        self.assertTrue(samples)
        largest = 0.0
        for sample, values in zip(samples, trainer_values(model, samples), strict=True):
            self.assertEqual(len(values), len(sample.token_ids))
            self.assertEqual(len(values), len(sample.logprobs))
            largest = max(largest, *(abs(a - b) for a, b in zip(values, sample.logprobs, strict=True)))
        return largest

    def roll_out(self, llm: LLM, prompts: list[Any], seed: int, tokens: int = 40) -> list[Sample]:
        params = SamplingParams(n=4, max_tokens=tokens, ignore_eos=True, seed=seed, detokenize=False)
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return [sample_of(output.prompt_token_ids, one, 0.0) for output in outputs for one in output.outputs]

    def check(self, folder: Path, prompts: list[Any]) -> None:
        """The checkpoint as it was loaded, then weights that the trainer has pushed."""
        model = trainer_of(folder)
        with LLM(folder, dtype="float32", num_threads=2) as llm:
            synchronizer = WeightSynchronizer(llm, MemoryTransport(model.state_dict))
            for version in range(3):
                samples = self.roll_out(llm, prompts, seed=version)
                found = self.difference(model, samples)
                print(f"{folder.name} version {version}: {found:.1e} over {sum(len(s.logprobs) for s in samples)} tokens")
                self.assertLess(found, SAME)
                self.assertEqual({number for sample in samples for number in sample.versions}, {version})
                stale = list(samples)
                disturb(model, version)
                self.assertGreater(self.difference(model, stale), 10 * SAME, "other weights were not noticed")
                synchronizer.sync_weights()

    def test_every_family(self) -> None:
        for name in FAMILIES:
            with self.subTest(checkpoint=name):
                self.check(CHECKPOINTS / name, PROMPTS)

    @unittest.skipUnless(DEMO_MODEL.is_dir(), "the demo model is not there: tools/fetch_demo_model.py")
    def test_demo_model(self) -> None:
        question = {"messages": [{"role": "user", "content": "What is 3 + 4? Answer with the number only."}]}
        self.check(DEMO_MODEL, [question, "The capital of France is"])

    def test_each_token_of_a_mixed_completion_fits_the_weights_of_its_version(self) -> None:
        folder = CHECKPOINTS / "llama"
        models = [trainer_of(folder), trainer_of(folder)]
        disturb(models[1], 5)
        samples = asyncio.run(mixed(folder, models[1].state_dict()))
        spread = [sample for sample in samples if len(set(sample.versions)) == 2]
        self.assertTrue(spread, "the update landed in no completion")
        by_version = [trainer_values(model, spread) for model in models]
        for place, sample in enumerate(spread):
            for at, (version, value) in enumerate(zip(sample.versions, sample.logprobs, strict=True)):
                self.assertLess(abs(by_version[version][place][at] - value), SAME)


async def mixed(folder: Path, weights: dict[str, Any]) -> list[Sample]:
    """Completions during which `weights` came, with keys and values rebuilt."""
    llm = AsyncLLM(folder, dtype="float32", num_threads=1)
    params = SamplingParams(n=200, max_tokens=100, ignore_eos=True, seed=1, output_kind=RequestOutputKind.CUMULATIVE)
    try:
        stream = llm.generate([3, 17], params)
        await anext(stream)
        await llm.update_weights(weights, 1, kv_policy="recompute")
        last = [output async for output in stream][-1]
    finally:
        llm.shutdown()
    return [sample_of(last.prompt_token_ids, one, 0.0) for one in last.outputs]


if __name__ == "__main__":
    unittest.main()
