"""AsyncLLM: streams on an event loop."""

from __future__ import annotations

import asyncio
import unittest
from typing import TYPE_CHECKING, ClassVar
from unittest import mock

from support import checkpoint, has, needs_native

if TYPE_CHECKING or has("rlgen._native"):
    from rlgen import LLM, AsyncLLM, RequestOutput, RequestOutputKind, SamplingParams
    from rlgen import streams as streams_module
    from rlgen.errors import BadInputError, DeadlineError, ShardLostError, WrongStateError

PROMPT = "the cat sat"


async def read(llm: AsyncLLM, params: SamplingParams, prompt: str = PROMPT) -> list[RequestOutput]:
    """Every output of one request."""
    return [output async for output in llm.generate(prompt, params)]


async def idle(llm: AsyncLLM) -> None:
    """Waits until the engine has nothing to do."""
    for _ in range(500):
        metrics = llm.metrics()
        if metrics["running"] + metrics["waiting"] == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the engine still runs requests that nobody reads")


@needs_native
class AsyncLLMTest(unittest.IsolatedAsyncioTestCase):
    """One tiny model for all tests, each on a loop of its own."""

    llm: ClassVar[AsyncLLM]

    @classmethod
    def setUpClass(cls) -> None:
        cls.llm = AsyncLLM(checkpoint("llama_text"), num_threads=1)
        cls.addClassCleanup(cls.llm.shutdown)

    async def test_kinds_of_output_add_up_to_the_same(self) -> None:
        params = {"n": 32, "max_tokens": 60, "seed": 4, "logprobs": 1, "ignore_eos": True}
        with LLM(checkpoint("llama_text"), num_threads=1) as llm:
            (whole,) = llm.generate(PROMPT, SamplingParams(**params))
        deltas = await read(self.llm, SamplingParams(**params, output_kind=RequestOutputKind.DELTA))
        cumulative = await read(self.llm, SamplingParams(**params))
        final = await read(self.llm, SamplingParams(**params, output_kind=RequestOutputKind.FINAL_ONLY))
        self.assertEqual(len(final), 1)
        self.assertGreater(len(deltas), 1)
        self.assertEqual([output.finished for output in deltas], [False] * (len(deltas) - 1) + [True])
        for sample in whole.outputs:
            self.assertEqual(final[0].outputs[sample.index], sample)
            self.assertEqual(cumulative[-1].outputs[sample.index], sample)
            parts = [part for output in deltas for part in output.outputs if part.index == sample.index]
            self.assertEqual([token for part in parts for token in part.token_ids], sample.token_ids)
            self.assertEqual("".join(part.text for part in parts), sample.text)
            self.assertEqual([value for part in parts for value in part.token_logprobs], sample.token_logprobs)
            self.assertEqual(parts[0].weight_versions[0].begin, 0)
            self.assertEqual(parts[-1].weight_versions[-1].end, 60)
        lengths = [len(output.outputs[0].token_ids) for output in cumulative]
        self.assertEqual(lengths, sorted(lengths))

    async def test_prompt_logprobs_and_score(self) -> None:
        (output,) = await read(
            self.llm, SamplingParams(max_tokens=3, prompt_logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY)
        )
        assert output.prompt_logprobs is not None
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        sample = output.outputs[0]
        scored = await self.llm.score(PROMPT, sample.token_ids, SamplingParams())
        self.assertEqual(scored.outputs[0].token_logprobs, sample.token_logprobs)

    async def test_leaving_a_stream_cancels_the_request(self) -> None:
        async for output in self.llm.generate(PROMPT, SamplingParams(max_tokens=None, ignore_eos=True, n=200)):
            self.assertFalse(output.finished)
            break
        await idle(self.llm)

    async def test_cancelling_the_task_cancels_the_request(self) -> None:
        before = self.llm.metrics()["generated_tokens"]
        task = asyncio.create_task(read(self.llm, SamplingParams(max_tokens=None, ignore_eos=True, n=64)))
        while self.llm.metrics()["generated_tokens"] == before:
            await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await idle(self.llm)

    async def test_abort_ends_a_request_with_what_there_is(self) -> None:
        outputs = []
        params = SamplingParams(max_tokens=None, ignore_eos=True, n=200)
        async for output in self.llm.generate("a", params, "mine"):
            outputs.append(output)
            await self.llm.abort("mine")
        aborted = [sample for sample in outputs[-1].outputs if sample.finish_reason == "abort"]
        self.assertGreater(len(aborted), 100)
        self.assertTrue(outputs[-1].finished)

    async def test_request_id_in_flight_is_refused(self) -> None:
        params = SamplingParams(max_tokens=None, ignore_eos=True, n=200)
        async for _ in self.llm.generate("a", params, "twice"):
            with self.assertRaisesRegex(BadInputError, "'twice' is in flight"):
                await anext(self.llm.generate("a", params, "twice"))
            break

    async def test_bad_parameter_is_raised_where_the_stream_is_read(self) -> None:
        with self.assertRaisesRegex(BadInputError, "top_p is 2"):
            await read(self.llm, SamplingParams(top_p=2.0))
        with self.assertRaisesRegex(BadInputError, "max_concurrent_requests is 0"):
            AsyncLLM(checkpoint("llama"), max_concurrent_requests=0)

    async def test_many_streams_at_once_each_get_their_own(self) -> None:
        async def one(seed: int) -> list[int]:
            outputs = await read(self.llm, SamplingParams(seed=seed, max_tokens=8), "a")
            return outputs[-1].outputs[0].token_ids

        together = await asyncio.gather(*(one(seed) for seed in range(40)))
        self.assertEqual(together, [await one(seed) for seed in range(40)])

    async def test_stalled_engine_ends_the_streams_with_an_error(self) -> None:
        engine = self.llm._engine
        stalled = mock.Mock(wraps=engine.native)
        stalled.check_progress.side_effect = DeadlineError("shard 0 computed nothing")
        stalled.submit.side_effect = lambda *_: []  # accepted, and nothing ever comes
        with (
            mock.patch.object(engine, "native", stalled),
            mock.patch.object(streams_module, "_WATCH_SECONDS", 0.01),
            self.assertRaisesRegex(DeadlineError, "computed nothing"),
        ):
            await read(self.llm, SamplingParams())


@needs_native
class OrderTest(unittest.IsolatedAsyncioTestCase):
    """What a request says about its place in the queue and about whom it shares with."""

    async def test_a_lower_priority_runs_first(self) -> None:
        llm = AsyncLLM(checkpoint("llama_text"), num_threads=1, max_num_seqs=1, max_concurrent_requests=8)
        self.addCleanup(llm.shutdown)
        ended: list[int] = []

        async def roll(priority: int) -> None:
            async for _ in llm.generate(PROMPT, SamplingParams(max_tokens=4), priority=priority):
                pass
            ended.append(priority)

        await llm.pause("keep")
        rolls = []
        for waiting, priority in enumerate((3, 0, -2), start=1):
            rolls.append(asyncio.create_task(roll(priority)))
            while llm._engine.native.in_flight() < waiting:
                await asyncio.sleep(0)
        await llm.resume()
        await asyncio.gather(*rolls)
        self.assertEqual(ended, [-2, 0, 3])

    async def test_other_salts_share_nothing(self) -> None:
        llm = AsyncLLM(checkpoint("llama_text"), num_threads=1)
        self.addCleanup(llm.shutdown)
        cached = []
        for salt in ("", "", "x", "x", "y"):
            prompt = {"prompt_token_ids": list(range(3, 40))}
            outputs = [output async for output in llm.generate(prompt, SamplingParams(max_tokens=2), cache_salt=salt)]
            cached.append(outputs[-1].num_cached_tokens)
        self.assertEqual(cached, [0, 32, 0, 32, 0])


@needs_native
class LimitsTest(unittest.TestCase):
    """Back-pressure and event loops."""

    def test_slow_readers_hold_back_new_requests(self) -> None:
        async def run() -> None:
            first = llm.generate([1], SamplingParams(max_tokens=2, ignore_eos=True))
            second = llm.generate([2], SamplingParams(max_tokens=2, ignore_eos=True))
            await anext(first)
            await anext(second)
            before = llm.metrics()["prompt_tokens"]
            third = asyncio.create_task(anext(llm.generate([3, 4], SamplingParams(max_tokens=2))))
            await asyncio.sleep(0.2)
            self.assertFalse(third.done())
            self.assertEqual(llm.metrics()["prompt_tokens"], before)
            await first.aclose()
            await third
            await second.aclose()

        llm = AsyncLLM(checkpoint("llama"), num_threads=1, max_concurrent_requests=2)
        self.addCleanup(llm.shutdown)
        asyncio.run(run())

    def test_one_loop_after_another_but_not_two_at_once(self) -> None:
        async def once() -> int:
            return len([output async for output in llm.generate([1], SamplingParams(max_tokens=2))])

        async def two_at_once() -> None:
            async for _ in llm.generate([1], SamplingParams(max_tokens=None, ignore_eos=True)):
                with self.assertRaisesRegex(WrongStateError, "another event loop"):
                    await asyncio.to_thread(asyncio.run, once())
                break

        llm = AsyncLLM(checkpoint("llama"), num_threads=1)
        self.addCleanup(llm.shutdown)
        self.assertGreater(asyncio.run(once()), 0)
        self.assertGreater(asyncio.run(once()), 0)
        asyncio.run(two_at_once())

    def test_use_after_shutdown_is_an_error(self) -> None:
        llm = AsyncLLM(checkpoint("llama"), num_threads=1)
        llm.shutdown()
        with self.assertRaises(ShardLostError):
            asyncio.run(read(llm, SamplingParams(), [1]))  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
