"""examples/grpo/asynchronous.py on a tiny random model, with a trainer in numpy."""

from __future__ import annotations

import asyncio
import math
import sys
import unittest
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "grpo"), str(ROOT / "python" / "tests")]

from asynchronous import PROMPTS, Options, Rollouts, Step, share_of_even, train
from numpy_llama import HeadTrainer
from samples import Sample
from support import checkpoint, tensors_of

from rlgen import AsyncLLM

MODEL = "llama"
# float32 of the engine against float64 differs by at most 2e-5 here, a step or more by 0.4.
SAME = 2e-4


def run(options: Options, isa: str) -> list[Step]:
    """Trains the fixture checkpoint. On "scalar" rollouts are slower than the trainer, on "auto" faster."""
    trainer = HeadTrainer(checkpoint(MODEL), tensors_of(MODEL), learning_rate=0.02)
    llm = AsyncLLM(checkpoint(MODEL), num_threads=1, isa=isa, max_num_seqs=4)
    try:
        return asyncio.run(asyncio.wait_for(train(llm, trainer, PROMPTS, share_of_even, options), 120))
    finally:
        llm.shutdown()


def on_policy(step: Step) -> list[float]:
    """Log importance ratios of the tokens that the learning weights made themselves."""
    return [ratio for ratio, lag in zip(step.log_ratios, step.lags, strict=True) if lag == 0]


class TrainTest(unittest.TestCase):
    """Whole runs."""

    def check(self, steps: list[Step], options: Options) -> None:
        """The reward rises, the bound holds, and ratios of a token's own version are 1."""
        self.assertEqual([step.version for step in steps], list(range(options.steps)))
        before, after = (fmean(step.reward for step in part) for part in (steps[:5], steps[-5:]))
        self.assertGreater(after, before + 0.1)
        for step in steps:
            self.assertLessEqual(max(step.lags), options.staleness)
            self.assertGreaterEqual(min(step.lags), 0)
            self.assertLess(max(map(abs, on_policy(step)), default=0.0), SAME)

    def test_updates_land_in_completions_and_the_reward_rises(self) -> None:
        for seed, pause in enumerate([True, False, True]):
            with self.subTest(seed=seed, pause=pause):
                options = Options(steps=20, seed=seed, pause=pause, max_tokens=32)
                steps = run(options, "scalar")
                self.check(steps, options)
                self.assertGreater(max(step.versions for step in steps), 1, "no update landed in a completion")
                self.assertGreater(max(abs(ratio) for step in steps for ratio in step.log_ratios), 100 * SAME)

    def test_bound_is_reached_and_not_passed_where_rollouts_are_faster(self) -> None:
        options = Options(steps=20, staleness=3, max_tokens=32)
        steps = run(options, "auto")
        self.check(steps, options)
        self.assertEqual(max(lag for step in steps for lag in step.lags), 3)

    def test_staleness_zero_is_on_policy(self) -> None:
        options = Options(steps=20, staleness=0, groups_per_step=2, max_tokens=32)
        steps = run(options, "auto")
        self.check(steps, options)
        self.assertEqual({step.versions for step in steps}, {1})
        self.assertEqual({lag for step in steps for lag in step.lags}, {0})


class BoundTest(unittest.IsolatedAsyncioTestCase):
    """What becomes of groups that are too old."""

    async def test_overtaken_group_is_dropped_and_makes_room(self) -> None:
        options = Options(staleness=2)
        rollouts = Rollouts(None, PROMPTS, options)  # type: ignore[arg-type]
        for _ in range(options.room):
            await rollouts._room.acquire()
        for versions in ([1, 2, 3], [4, 4], [2, 5]):
            rollouts._finished.put_nowait([Sample([1], versions, [0.0] * len(versions), 0.0, versions)])
        group, dropped = await rollouts.take(4)
        self.assertEqual((group[0].versions, dropped), ([4, 4], 1))
        self.assertFalse(rollouts._room.locked())
        group, dropped = await rollouts.take(4)
        self.assertEqual((group[0].versions, dropped), ([2, 5], 0))

    async def test_rollout_that_fails_ends_the_run(self) -> None:
        trainer = HeadTrainer(checkpoint(MODEL), tensors_of(MODEL), learning_rate=0.02)
        llm = AsyncLLM(checkpoint(MODEL), num_threads=1)
        self.addCleanup(llm.shutdown)

        def broken(token_ids: list[int]) -> float:
            raise LookupError("no reward")

        with self.assertRaises(ExceptionGroup) as caught:
            await asyncio.wait_for(train(llm, trainer, PROMPTS, broken, Options()), 60)
        self.assertIsNotNone(caught.exception.subgroup(LookupError))


class RatioTest(unittest.TestCase):
    """Importance ratios."""

    def test_pull_is_the_capped_ratio_times_the_advantage(self) -> None:
        from asynchronous import learn

        class Recorder:
            """Answers with fixed log-probabilities."""

            def logprobs(self, samples: list[Sample]) -> list[list[float]]:
                return [[-1.0, -1.0], [-1.0, -1.0]]

            def step(self, samples: list[Sample], pulls: list[list[float]]) -> None:
                self.pulls = pulls

        recorder = Recorder()
        samples = [Sample([1], [2, 3], [-1.0, -3.0], 1.0, [3, 4]), Sample([1], [2, 3], [-0.5, -1.0], 0.0, [5, 5])]
        step = learn(recorder, samples, 5, 0, Options(group=2, ratio_cap=2.0))  # type: ignore[arg-type]
        gain = 0.5 / (math.sqrt(0.5) + 1e-4) / 4
        for found, expected in zip(recorder.pulls, [[gain, 2 * gain], [-gain * math.exp(-0.5), -gain]], strict=True):
            for one, other in zip(found, expected, strict=True):
                self.assertAlmostEqual(one, other, places=12)
        self.assertEqual((step.lags, step.versions), ([2, 1, 0, 0], 2))
        self.assertEqual(step.log_ratios, [0.0, 2.0, -0.5, 0.0])


if __name__ == "__main__":
    unittest.main()
