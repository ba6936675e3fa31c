"""RlgenGeneration: the backend as a trainer drives it. Tests are named by the numbers of the contract."""

from __future__ import annotations

import asyncio
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import (
    checkpoint,
    grow_checkpoint,
    has,
    needs_native,
    needs_numpy,
    needs_pydantic,
    needs_torch,
    resident_bytes,
)

READY = has("rlgen._native") and has("numpy") and has("pydantic")
if TYPE_CHECKING or READY:
    import numpy as np

    import rlgen
    from rlgen.errors import BadInputError, PreconditionError, UnsupportedError, WrongStateError
    from rlgen.generation import BatchedDataDict, RlgenGeneration
    from rlgen.generation.interfaces import DisaggConfig, GenerationSamplingParams, verify_right_padding

PAD = 0


def config(model: str, **changes: Any) -> Any:
    """A section policy.generation for a fixture checkpoint."""
    return {
        "backend": "rlgen",
        "model_name": str(checkpoint(model)),
        "max_new_tokens": 8,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": None,
        "val_temperature": 0.5,
        "val_top_p": 0.9,
        "val_top_k": None,
        "stop_token_ids": None,
        "stop_strings": None,
        "_pad_token_id": PAD,
        "colocated": {"enabled": False, "resources": {"gpus_per_node": None, "num_nodes": None}},
        "rlgen_cfg": {"num_threads": 1},
        **changes,
    }


COLOCATED = {"enabled": True, "resources": {"gpus_per_node": None, "num_nodes": None}}


def batch(*prompts: list[int], **columns: Any) -> BatchedDataDict[Any]:
    """A right-padded batch of numpy."""
    width = max((len(prompt) for prompt in prompts), default=0)
    ids = np.full((len(prompts), width), PAD, np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    lengths = np.array([len(prompt) for prompt in prompts], np.int64)
    return BatchedDataDict({"input_ids": ids, "input_lengths": lengths, **columns})


class GenerationTest(unittest.TestCase):
    """Makes backends that are shut down at the end of the test."""

    def start(self, model: str, **changes: Any) -> RlgenGeneration:
        generation = RlgenGeneration(config(model, **changes))
        self.addCleanup(generation.shutdown)
        return generation


def generated(output: Any, row: int) -> list[int]:
    """The generated ids of a row."""
    end = int(output["unpadded_sequence_lengths"][row])
    return output["output_ids"][row, end - int(output["generation_lengths"][row]) : end].tolist()


@needs_native
@needs_numpy
@needs_pydantic
class BatchTest(GenerationTest):
    """Layout, sampling and errors of generate."""

    def test_t3_output_layout(self) -> None:
        generation = self.start("table_chain", max_new_tokens=3)
        output = generation.generate(batch([3], [1, 1, 4], [1, 5]), greedy=True)
        rows = [[3, 4, 5, 6, 0, 0], [1, 1, 4, 5, 6, 2], [1, 5, 6, 2, 0, 0]]
        self.assertEqual(output["output_ids"].tolist(), rows)
        self.assertEqual(output["generation_lengths"].tolist(), [3, 3, 2])
        self.assertEqual(output["unpadded_sequence_lengths"].tolist(), [4, 6, 4])
        self.assertEqual(output["truncated"].tolist(), [True, False, False])
        self.assertEqual(output["context_full"].tolist(), [False] * 3)
        self.assertEqual(output["finish_reasons"], ["length", "stop", "stop"])
        self.assertEqual(output["logprobs_mode"], ["processed"] * 3)
        made = output["weight_versions"] >= 0
        self.assertEqual(made.sum(axis=1).tolist(), [3, 3, 2])
        self.assertTrue((output["weight_versions"][made] == 0).all())
        self.assertTrue((output["logprobs"][~made] == 0).all())
        self.assertTrue((output["logprobs"][made] < 0).all())
        self.assertEqual(verify_right_padding(output, PAD), (True, None))
        kinds = {key: str(column.dtype) for key, column in output.items() if hasattr(column, "dtype")}
        self.assertEqual(
            kinds,
            {
                "output_ids": "int64",
                "generation_lengths": "int64",
                "unpadded_sequence_lengths": "int64",
                "logprobs": "float32",
                "truncated": "bool",
                "weight_versions": "int64",
                "seeds": "int64",
                "context_full": "bool",
            },
        )

    def test_t3_type_of_the_ids_is_kept(self) -> None:
        data = batch([3])
        data["input_ids"] = data["input_ids"].astype(np.int32)
        data["input_lengths"] = data["input_lengths"].astype(np.int32)
        output = self.start("table_chain").generate(data, greedy=True)
        self.assertEqual((output["output_ids"].dtype, output["generation_lengths"].dtype), (np.int32, np.int64))

    def test_t4_shards_keep_the_order(self) -> None:
        resources = {"gpus_per_node": 2, "num_nodes": 1}
        generation = self.start("llama", colocated={"enabled": False, "resources": resources})
        self.assertEqual(generation.dp_size, 2)
        data = batch(*([[token] for token in range(3, 10)]), seeds=list(range(7)))
        output = generation.generate(data, greedy=False)
        alone = self.start("llama")
        for row in range(7):
            one = alone.generate(data.slice(row, row + 1), greedy=False)
            self.assertEqual(generated(output, row), generated(one, 0))
        self.assertEqual(output["seeds"].tolist(), list(range(7)))

    def test_t6_stop_strings_are_per_sample(self) -> None:
        prompts = ([10], [10], [10], [10])
        generation = self.start("table_stories")
        data = batch(*prompts, stop_strings=[["wor"], None, "he", []])
        output = generation.generate(data, greedy=True)
        self.assertEqual([generated(output, row) for row in range(4)], [[11, 12], [11, 12, 13, 0], [11], [11, 12, 13, 0]])
        self.assertEqual(output["truncated"].tolist(), [False] * 4)
        configured = self.start("table_stories", stop_strings=["wor"])
        for own in ({}, {"stop_strings": [None, ["he"], None, []]}):
            output = configured.generate(batch(*prompts, **own), greedy=True)
            self.assertEqual(output["generation_lengths"].tolist(), [2, 1, 2, 2] if own else [2] * 4)
        with self.assertRaisesRegex(BadInputError, r"stop_strings\[1\] is \[3\]"):
            generation.generate(batch([10], [10], stop_strings=[None, [3]]), greedy=True)
        with self.assertRaisesRegex(BadInputError, "stop_strings has 1 entries for a batch of 2"):
            generation.generate(batch([10], [10], stop_strings=[None]), greedy=True)

    def test_t7_stop_string_is_retained(self) -> None:
        generation = self.start("table_stories")
        output = generation.generate(batch([10], stop_strings=[["wor"]]), greedy=True)
        text = generation._engine.native.decode(generated(output, 0))
        self.assertTrue(text.endswith("wor"), text)

    def test_t8_bad_words_are_never_sampled(self) -> None:
        free = self.start("table_stories", max_new_tokens=1)
        self.assertEqual(generated(free.generate(batch([55]), greedy=True), 0), [56])
        generation = self.start("table_stories", max_new_tokens=1, bad_words=["London"])
        self.assertEqual(generated(generation.generate(batch([55]), greedy=True), 0), [58])
        output = generation.generate(batch(*([[55]] * 100), seeds=list(range(100))), greedy=False)
        drawn = {generated(output, row)[0] for row in range(100)}
        self.assertFalse(drawn & {56, 57}, drawn)

    def test_t9_ignore_eos(self) -> None:
        stopped = self.start("table_eager_eos").generate(batch([1]), greedy=True)
        self.assertEqual((generated(stopped, 0), stopped["truncated"].tolist()), ([2], [False]))
        for stops in (None, []):  # the default ids too
            with self.subTest(stops=stops):
                generation = self.start("table_eager_eos", ignore_eos=True, stop_token_ids=stops)
                output = generation.generate(batch([1]), greedy=True)
                self.assertEqual(generated(output, 0), [2] * 8)
                self.assertEqual(output["truncated"].tolist(), [True])

    def test_t10_truncated(self) -> None:
        generation = self.start("table_stories", rlgen_cfg={"num_threads": 1, "max_model_len": 6}, max_new_tokens=2)
        data = batch([10], [12], [10, 11], [10] * 6, [10] * 7, [10] * 5)
        data["stop_strings"] = [None, None, ["wor"], None, None, None]
        output = generation.generate(data, greedy=True)
        self.assertEqual(output["finish_reasons"], ["length", "stop", "stop", "length", "length", "length"])
        self.assertEqual(output["truncated"].tolist(), [True, False, False, False, False, True])
        self.assertEqual(output["context_full"].tolist(), [False, False, False, True, True, True])
        self.assertEqual(output["generation_lengths"].tolist(), [2, 2, 1, 0, 0, 1])

    def test_t11_logprobs_are_those_of_the_distribution_drawn_from(self) -> None:
        logits = np.array([0, 0, 0, 0, 1, 2, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0], np.float64)
        sampling = GenerationSamplingParams(temperature=2.0, top_p=1.0, top_k=3)
        data = batch(*([[1]] * 50), seeds=list(range(50)))
        expected = {}
        for mode, kept, temperature in (("processed", [5, 6, 7], 2), ("tempered", range(16), 2), ("raw", range(16), 1)):
            scaled = logits / temperature
            total = np.log(np.exp(scaled[list(kept)]).sum())
            expected[mode] = {token: scaled[token] - total for token in (5, 6, 7)}
            generation = self.start(
                "table_prefers_six", max_new_tokens=1, rlgen_cfg={"num_threads": 1, "logprobs_mode": mode}
            )
            output = generation.generate(data, greedy=False, sampling=sampling)
            drawn = [generated(output, row)[0] for row in range(50)]
            self.assertEqual(set(drawn), {5, 6, 7})
            for token, value in zip(drawn, output["logprobs"][:, 1], strict=True):
                self.assertAlmostEqual(value, expected[mode][token], places=5)
        self.assertAlmostEqual(sum(np.exp(value) for value in expected["processed"].values()), 1.0)

    def test_t12_greedy_is_arg_max_and_repeats(self) -> None:
        generation = self.start("llama", temperature=0.3, top_p=0.2, top_k=2)
        first = generation.generate(batch([3, 4], [5]), greedy=True)
        again = generation.generate(batch([3, 4], [5]), greedy=True)
        self.assertEqual(first["output_ids"].tolist(), again["output_ids"].tolist())
        self.assertEqual(first["logprobs"].tolist(), again["logprobs"].tolist())
        llm = rlgen.LLM(checkpoint("llama"), num_threads=1)
        self.addCleanup(llm.shutdown)
        params = rlgen.SamplingParams(temperature=0.0, max_tokens=8)
        self.assertEqual(llm.generate([5], params)[0].outputs[0].token_ids, generated(first, 1))

    def test_seeds_given_in_come_back_and_repeat(self) -> None:
        generation = self.start("llama")
        output = generation.generate(batch([3], [3], seeds=[5, None]), greedy=False)
        self.assertEqual(output["seeds"].tolist()[0], 5)
        again = generation.generate(batch([3], [3], seeds=np.array(output["seeds"])), greedy=False)
        self.assertEqual(output["output_ids"].tolist(), again["output_ids"].tolist())

    def test_empty_batch(self) -> None:
        output = self.start("llama").generate(batch(), greedy=False)
        self.assertEqual(output["output_ids"].shape, (0, 0))
        self.assertEqual(output["logprobs"].dtype, np.float32)
        self.assertEqual(output["truncated"].shape, (0,))

    def test_bad_batches_are_named(self) -> None:
        generation = self.start("llama")
        left = batch([0, 3], [4, 5])
        left["input_lengths"] = np.array([1, 2])
        for data, kind, text in [
            ({}, PreconditionError, "data is a dict"),
            (BatchedDataDict({"input_ids": np.zeros((1, 1))}), AssertionError, "lacks input_lengths"),
            (left, BadInputError, r"input_ids\[0\] is not right-padded with 0"),
            (batch([3], [99999]), BadInputError, r"input_ids\[1\]: prompt_token_ids\[0\] is 99999"),
            (batch([3], []), BadInputError, r"input_ids\[1\]: the prompt is empty"),
            (batch([3], vllm_images=[["picture"]]), BadInputError, "vllm_images holds media"),
            (batch([3], seeds=[-1]), BadInputError, r"input_ids\[0\]: seed is -1"),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(kind, text):
                generation.generate(data, greedy=True)
        generation.generate(batch([3], vllm_images=[[]], vllm_content=[None], other=["x"]), greedy=True)

    def test_class_of_the_batch_is_kept(self) -> None:
        class Own(BatchedDataDict[Any]):
            """A trainer's own."""

        output = self.start("llama").generate(Own(batch([3])), greedy=True)
        self.assertIs(type(output), Own)

    def test_row_that_fails_raises(self) -> None:
        with self.assertRaisesRegex(rlgen.RlgenError, "row 0: .*finite"):
            self.start("table_nan", max_new_tokens=1).generate(batch([1], [0]), greedy=True)

    @needs_torch
    def test_torch_in_torch_out(self) -> None:
        import torch

        data = batch([3, 4], [5])
        generation = self.start("llama")
        expected = generation.generate(data, greedy=True)
        for dtype in (torch.int64, torch.int32):
            given: BatchedDataDict[Any] = BatchedDataDict(
                {"input_ids": torch.tensor(data["input_ids"]).to(dtype), "input_lengths": torch.tensor([2, 1])}
            )
            output = generation.generate(given, greedy=True)
            self.assertIs(output["output_ids"].dtype, dtype)
            self.assertIs(output["truncated"].dtype, torch.bool)
            self.assertEqual(output["logprobs"].tolist(), expected["logprobs"].tolist())

    def test_text(self) -> None:
        generation = self.start("llama_text")
        with rlgen.LLM(checkpoint("llama_text"), num_threads=1) as llm:
            params = rlgen.SamplingParams(temperature=0.0, max_tokens=8)
            texts = [output.outputs[0].text for output in llm.generate(["the cat", "a"], params)]
        stop = texts[0][1:3]
        data: BatchedDataDict[Any] = BatchedDataDict({"prompts": ["the cat", "a"], "stop_strings": [[stop], None]})
        output = generation.generate_text(data, greedy=True)
        self.assertIn(stop, output["texts"][0])
        self.assertLess(len(output["texts"][0]), len(texts[0]))
        self.assertEqual(output["texts"][1], texts[1])


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


@needs_native
@needs_numpy
@needs_pydantic
class LifeTest(GenerationTest):
    """Phases, pauses, configuration, what is refused."""

    def test_t15_prepare_is_cheap_and_idempotent(self) -> None:
        generation = self.start("llama", colocated=COLOCATED)
        engine = generation._engine.native
        for _ in range(3):
            self.assertIs(generation.prepare_for_generation(), True)
        self.assertIs(generation.prepare_for_generation(tags=["colocated_refit"]), True)
        self.assertIs(generation._engine.native, engine)
        expected = generation.generate(batch([3]), greedy=True)
        generation.finish_generation()
        self.assertEqual(engine.asleep(), (True, True))
        generation.prepare_for_generation(tags=["weights"])
        self.assertEqual(engine.asleep(), (False, True))
        with self.assertRaises(WrongStateError):
            generation.generate(batch([3]), greedy=True)
        generation.prepare_for_generation(tags=["kv_cache"])
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())

    def test_t16_release_gpu(self) -> None:
        generation = self.start("llama", colocated=COLOCATED)
        self.assertIs(generation.blocks_training(), True)
        expected = generation.generate(batch([3]), greedy=True)
        self.assertIs(generation.finish_generation(release_gpu=False), True)
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
        self.assertIs(generation.finish_generation(release_gpu=True), True)
        with self.assertRaisesRegex(RuntimeError, "asleep|sleep") as caught:
            generation.generate(batch([3]), greedy=True)
        self.assertIsInstance(caught.exception, WrongStateError)
        self.assertIs(generation.prepare_for_generation(), True)
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
        apart = self.start("llama")
        apart.finish_generation()
        apart.generate(batch([3]), greedy=True)

    def test_t16_memory_goes_back_to_the_system(self) -> None:
        """58 MB of weights and 50 MB of KV: back while the backend stands down, in every cycle."""
        with tempfile.TemporaryDirectory() as folder:
            grow_checkpoint("llama_fp16", Path(folder), rows=300_000, positions=1024)
            section = {"num_threads": 1, "kv_cache_memory_bytes": 64 << 20}
            generation = self.start("llama_fp16", model_name=folder, colocated=COLOCATED, rlgen_cfg=section)
        expected = generation.generate(batch([3]), greedy=True)
        generation.generate(batch(*([[row] * 1000 for row in range(3, 67)])), greedy=True)
        full = resident_bytes()
        generation.finish_generation(release_gpu=False)
        self.assertGreater(resident_bytes(), full - 5_000_000)
        for cycle in range(3):
            with self.subTest(cycle=cycle):
                generation.finish_generation(release_gpu=True)
                self.assertLess(resident_bytes(), full - 95_000_000)
                generation.prepare_for_generation(tags=["weights"])
                self.assertGreater(resident_bytes(), full - 60_000_000)
                generation.prepare_for_generation(tags=["kv_cache"])
                again = generation.generate(batch([3]), greedy=True)
                self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
                self.assertLess(resident_bytes(), full - 35_000_000)

    def test_t17_shutdown_twice(self) -> None:
        generation = self.start("llama")
        self.assertIs(generation.shutdown(), True)
        self.assertIs(generation.shutdown(), True)
        with self.assertRaises(rlgen.RlgenError):
            generation.generate(batch([3]), greedy=True)

    def test_seven_members_refuse_by_name(self) -> None:
        generation = self.start("llama")
        for member, call in {
            "init_collective": lambda: generation.init_collective("127.0.0.1", 1, 2, train_world_size=1),
            "update_weights_from_collective": generation.update_weights_from_collective,
            "prepare_nccl_reshard_refit_info": lambda: generation.prepare_nccl_reshard_refit_info({}),
            "nccl_reshard_refit": generation.nccl_reshard_refit,
            "attach_fleet_health": lambda: generation.attach_fleet_health(None, None),
            "restart_shard": lambda: generation.restart_shard(0),
            "setup_token_capture": lambda: generation.setup_token_capture(None, "x"),
        }.items():
            with self.subTest(member=member), self.assertRaisesRegex(UnsupportedError, f"RlgenGeneration.*{member}"):
                call()

    def test_t22_deadlines_that_nobody_keeps_are_refused(self) -> None:
        generation = self.start("llama")
        for call in (generation.update_weights_from_collective, generation.nccl_reshard_refit):
            with self.assertRaisesRegex(NotImplementedError, "async_rl.generation_fleet_health.refit_timeout_s"):
                call(30.0)

    def test_pause_modes(self) -> None:
        generation = self.start("llama")
        with self.assertRaisesRegex(ValueError, "keep, wait, abort, retract"):
            generation.pause_generation("kill")
        for mode in ("keep", "wait", "abort", "retract"):
            generation.pause_generation(mode)
            generation.pause_generation(mode)
            generation.continue_generation()
            generation.continue_generation()
        generation.pause_generation("keep")
        with self.assertRaises(WrongStateError):
            generation.pause_generation("wait")
        generation.continue_generation()
        self.assertIs(generation.resume_generation_after_refit(), True)
        for timeout in (0, -1.0, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "timeout_s is"):
                generation.pause_generation_for_refit(clear_cache=True, timeout_s=timeout)

    def test_t23_pause_keeps_requests_frozen(self) -> None:
        def made() -> int:
            return int(generation.get_logger_metrics()["generation_tokens"][0][-1])

        async def frozen(before: int) -> bool:
            """One request, frozen on its way; False where it was done before the pause."""
            task = asyncio.ensure_future(anext(generation.generate_async(batch([1], seeds=[3]))))
            while made() == before:
                await asyncio.sleep(0)
            self.assertIs(generation.pause_generation_for_refit(clear_cache=False), True)
            paused_at = made()
            on_the_way = paused_at - before < 200
            await asyncio.sleep(0.1 if on_the_way else 0)
            self.assertEqual(made(), paused_at)
            if on_the_way:
                self.assertFalse(task.done())
            self.assertIs(generation.resume_generation_after_refit(), True)
            _, output = await task
            self.assertEqual(output["output_ids"].tolist(), expected["output_ids"].tolist())
            self.assertEqual(output["logprobs"].tolist(), expected["logprobs"].tolist())
            return on_the_way

        generation = self.start("table_prefers_six", max_new_tokens=200)
        expected = generation.generate(batch([1], seeds=[3]), greedy=False)
        self.assertTrue(any(asyncio.run(frozen(made())) for _ in range(1000)))

    def test_liveness(self) -> None:
        generation = self.start("llama")
        self.assertIs(rlgen.wait(generation.shard_liveness_ref(0), 10), True)
        with self.assertRaisesRegex(ValueError, "there is no shard 1; shards go from 0 to 0"):
            generation.shard_liveness_ref(1)

    def test_facts(self) -> None:
        generation = self.start("llama")
        self.assertEqual(generation.dp_openai_server_base_urls, [None])
        self.assertEqual(generation.validation_sampling, GenerationSamplingParams(0.5, 0.9, None))
        self.assertIs(generation.blocks_training(), False)
        self.assertIs(generation.wake_carries_weight_updates(), False)
        self.assertIs(generation.requires_kv_scale_sync, False)
        self.assertIsNone(generation.prepare_refit_info({}))

    def test_t33_logger_metrics_and_their_drain(self) -> None:
        generation = self.start("llama")
        generation.generate(batch([3]), greedy=True)
        metrics = generation.get_logger_metrics()
        names = {"inflight_batch_sizes", "num_pending_samples", "kv_cache_usage_perc", "generation_tokens"}
        self.assertEqual(set(metrics), names)
        made = metrics["generation_tokens"][0][-1]
        self.assertGreater(made, 0)
        for name in names:
            self.assertEqual(list(metrics[name]), [0])
        self.assertEqual(generation.drain_latest_logger_metrics()["generation_tokens"], {0: [made]})
        generation.clear_logger_metrics()
        self.assertEqual(len(generation.get_logger_metrics()["generation_tokens"][0]), 1)

    def test_t34_step_window(self) -> None:
        generation = self.start("llama")
        generation.generate(batch([3]), greedy=True)
        generation.snapshot_step_metrics()
        output = generation.generate(batch([3, 4, 5]), greedy=True)
        step = generation.get_step_metrics()
        self.assertEqual(step["rlgen/generated_tokens"], float(output["generation_lengths"].sum()))
        self.assertTrue(all(isinstance(value, float) for value in step.values()))
        with self.assertWarnsRegex(RuntimeWarning, "without snapshot"):
            self.assertEqual(generation.get_step_metrics(), {})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            generation.snapshot_step_metrics()
        with self.assertWarnsRegex(RuntimeWarning, "twice"):
            generation.snapshot_step_metrics()

    def test_t36_config_errors_carry_the_dotted_key(self) -> None:
        for changes, kind, text in [
            ({"backend": "vllm"}, ValueError, r"policy\.generation\.backend"),
            ({"top_p": 0.0}, ValueError, r"policy\.generation\.top_p"),
            ({"max_new_token": 3}, ValueError, r"max_new_token.*max_new_tokens"),
            ({"disaggregation": DisaggConfig(enabled=True)}, NotImplementedError, r"disaggregation\.enabled"),
            ({"_draft_full_refit": True}, NotImplementedError, "_draft_full_refit"),
            ({"_mtp_weights_from_refit": True}, NotImplementedError, "_mtp_weights_from_refit"),
            ({"_draft_weights_from_refit": True}, NotImplementedError, "_draft_weights_from_refit"),
            ({"use_async_rollouts": False}, NotImplementedError, "use_async_rollouts"),
            ({"_debug_payload_metrics": True}, NotImplementedError, "_debug_payload_metrics"),
            ({"refit_transport": "nixl"}, NotImplementedError, "refit_transport"),
            ({"rlgen_cfg": {"max_num_seq": 3}}, ValueError, r"rlgen_cfg\.max_num_seq.*max_num_seqs"),
            ({"rlgen_cfg": {"block_size": 3}}, ValueError, r"rlgen_cfg\.block_size"),
            ({"model_name": "/nowhere"}, ValueError, "nowhere"),
        ]:
            with self.subTest(changes=changes), self.assertRaisesRegex(kind, text):
                RlgenGeneration(config("llama", **changes))
        short = config("llama")
        del short["model_name"], short["temperature"]
        with self.assertRaisesRegex(AssertionError, "model_name.*temperature|temperature.*model_name"):
            RlgenGeneration(short)

    def test_validate_settings(self) -> None:
        RlgenGeneration.validate_settings({"policy": {"generation": config("llama")}})
        for master, text in [
            ({"policy": {"generation": config("llama", top_k=0)}}, r"policy\.generation\.top_k"),
            (
                {"policy": {"generation": config("llama"), "router_replay": {"enabled": True}}},
                r"policy\.router_replay\.enabled",
            ),
            (
                {"policy": {"generation": config("llama")}, "token_capture": {"enabled": True}},
                r"token_capture\.enabled",
            ),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(rlgen.RlgenError, text):
                RlgenGeneration.validate_settings(master)

    def test_tokenizer_of_the_trainer_decides_the_pad_id(self) -> None:
        class Tokenizer:
            """What is looked at."""

            pad_token_id = 9
            eos_token_id = 2

        generation = RlgenGeneration(config("table_chain"), tokenizer=Tokenizer())
        self.addCleanup(generation.shutdown)
        data = batch([3], [1, 5])
        data["input_ids"][0, 1] = 9
        output = generation.generate(data, greedy=True)
        self.assertEqual(output["output_ids"].tolist(), [[3, 4, 5, 6, 2], [1, 5, 6, 2, 9]])


if __name__ == "__main__":
    unittest.main()
