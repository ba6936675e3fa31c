"""RlgenGeneration.generate_async: one row on an event loop. Tests are named by the numbers of the contract."""

from __future__ import annotations

import asyncio
import unittest
from typing import TYPE_CHECKING, Any

from backend_support import READY, GenerationTest, batch
from support import needs_native, needs_numpy, needs_pydantic

if TYPE_CHECKING or READY:
    from rlgen.generation import BatchedDataDict


@needs_native
@needs_numpy
@needs_pydantic
class AsyncTest(GenerationTest):
    """generate_async."""

    def test_t14_one_sample_at_a_time(self) -> None:
        async def run() -> None:
            self.assertEqual([item async for item in generation.generate_async(batch())], [])
            with self.assertRaisesRegex(AssertionError, "2 rows"):
                await anext(generation.generate_async(batch([3], [4])))
            pairs = [item async for item in generation.generate_async(batch([3], seeds=[7]))]
            self.assertEqual([index for index, _ in pairs], [0])
            self.assertEqual(pairs[0][1]["output_ids"].tolist(), expected["output_ids"].tolist())
            self.assertEqual(pairs[0][1]["output_ids"].shape, (1, int(pairs[0][1]["unpadded_sequence_lengths"][0])))
            self.assertEqual(pairs[0][1]["gen_leader_worker_idx"], [0])

        generation = self.start("llama")
        expected = generation.generate(batch([3], seeds=[7]), greedy=False)
        asyncio.run(run())

    def test_output_names_the_engine_that_served_it(self) -> None:
        async def served(calls: list[Any]) -> list[list[int]]:
            generation.pause_generation("keep")  # none ends before the last one is given to an engine
            outputs = asyncio.gather(*(anext(call) for call in calls))
            while generation._engine.native.in_flight() < len(calls):
                await asyncio.sleep(0.01)
            generation.continue_generation()
            return sorted(output["gen_leader_worker_idx"] for _, output in await outputs)

        async def run() -> None:
            self.assertEqual(await served([generation.generate_async(batch([row])) for row in range(4)]), [[0], [0], [1], [1]])
            text: BatchedDataDict[Any] = BatchedDataDict({"prompts": ["the cat"]})
            self.assertEqual(await served([generation.generate_text_async(text) for _ in range(2)]), [[0], [1]])

        resources = {"gpus_per_node": 2, "num_nodes": 1}
        generation = self.start("llama_text", colocated={"enabled": False, "resources": resources})
        self.assertNotIn("gen_leader_worker_idx", generation.generate(batch([1]), greedy=True))
        asyncio.run(asyncio.wait_for(run(), 60))

    def test_t14_cancellation_cancels_the_engine_request(self) -> None:
        async def pending(count: int) -> None:
            for _ in range(1000):
                if generation._engine.native.in_flight() == count:
                    return
                await asyncio.sleep(0.01)
            self.fail(f"never {count} requests in the engine")

        async def run() -> None:
            task = asyncio.ensure_future(anext(generation.generate_async(batch([1]))))
            await pending(1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await pending(0)

        generation = self.start("table_prefers_six", max_new_tokens=200)
        generation.pause_generation("keep")
        asyncio.run(run())
        generation.continue_generation()

    def test_full_context_needs_no_engine(self) -> None:
        async def run() -> None:
            ((_, output),) = [item async for item in generation.generate_async(batch([1] * 4))]
            self.assertEqual(output["generation_lengths"].tolist(), [0])
            self.assertEqual(output["truncated"].tolist(), [False])
            self.assertEqual(output["context_full"].tolist(), [True])
            self.assertEqual(output["gen_leader_worker_idx"], [-1])

        generation = self.start("table_chain", rlgen_cfg={"num_threads": 1, "max_model_len": 4})
        asyncio.run(run())

    def test_text(self) -> None:
        async def run() -> None:
            ((_, output),) = [item async for item in generation.generate_text_async(data, greedy=True)]
            self.assertEqual(output["texts"], generation.generate_text(data, greedy=True)["texts"])
            self.assertNotEqual(output["texts"], [""])

        data: BatchedDataDict[Any] = BatchedDataDict({"prompts": ["the cat"]})
        generation = self.start("llama_text")
        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
