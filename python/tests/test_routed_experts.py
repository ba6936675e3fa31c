"""Routes through experts: recorded, streamed, in batches, and given."""

from __future__ import annotations

import asyncio
import tempfile
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from support import checkpoint, expert_checkpoints, has, needs_native, needs_numpy, needs_pydantic
from test_rlgen_generation import batch, config

if TYPE_CHECKING or (has("rlgen._native") and has("numpy")):
    import numpy as np

    from rlgen import LLM, AsyncLLM, RequestOutputKind, SamplingParams
    from rlgen.errors import BadInputError

if TYPE_CHECKING or (has("rlgen._native") and has("numpy") and has("pydantic")):
    from rlgen.generation import RlgenGeneration

MODEL = "qwen3_moe"
PROMPT = [5, 9, 2, 7, 30, 11, 4]
ON = {"enable_return_routed_experts": True, "num_threads": 1}


def params(**changes: Any) -> SamplingParams:
    """Six tokens, always the same."""
    return SamplingParams(**{"max_tokens": 6, "seed": 3, "ignore_eos": True, **changes})


@needs_native
@needs_numpy
class RoutedExpertsTest(unittest.TestCase):
    """One tiny model with experts that records its routes."""

    llm: ClassVar[LLM]

    @classmethod
    def setUpClass(cls) -> None:
        cls.llm = LLM(checkpoint(MODEL), enable_return_routed_experts=True, num_threads=1)
        cls.addClassCleanup(cls.llm.shutdown)

    def routes(self, **changes: Any) -> Any:
        """The routes of one sample."""
        return self.llm.generate(PROMPT, params(**changes))[0].outputs[0].routed_experts

    def test_t13_a_row_less_than_tokens(self) -> None:
        routes = self.routes()
        info = self.llm.info
        shape = (len(PROMPT) + 5, info["routed_experts_layers"], info["routed_experts_top_k"])
        self.assertEqual(routes.shape, shape)
        self.assertEqual(routes.dtype, np.int8)
        self.assertTrue(((routes >= 0) & (routes < info["num_routed_experts"])).all())
        distinct = [len(set(slots)) for slots in routes.reshape(-1, routes.shape[2]).tolist()]
        self.assertEqual(set(distinct), {routes.shape[2]})

    def test_fb233_a_second_time_they_are_the_same(self) -> None:
        long = [token % 90 for token in range(1, 50)]
        first, second = (self.llm.generate(long, params())[0] for _ in range(2))
        self.assertGreater(second.num_cached_tokens or 0, 0)
        np.testing.assert_array_equal(first.outputs[0].routed_experts, second.outputs[0].routed_experts)

    def test_rows_begin_where_the_parameters_say(self) -> None:
        np.testing.assert_array_equal(self.routes(routed_experts_prompt_start=4), self.routes()[4:])
        with self.assertRaisesRegex(BadInputError, "routed_experts_prompt_start is 8"):
            self.routes(routed_experts_prompt_start=8)

    def test_replay_gives_the_same_bits_and_altered_routes_do_not(self) -> None:
        free = self.llm.generate(PROMPT, params())[0].outputs[0]
        prompt: Any = {"prompt_token_ids": PROMPT, "routed_experts": free.routed_experts}
        again = self.llm.generate(prompt, params())[0].outputs[0]
        self.assertEqual(again, free)
        np.testing.assert_array_equal(again.routed_experts, free.routed_experts)
        scored = self.llm.score(PROMPT, free.token_ids, params(), routed_experts=free.routed_experts)
        self.assertEqual(scored[0].outputs[0].token_logprobs, free.token_logprobs)
        np.testing.assert_array_equal(scored[0].outputs[0].routed_experts, free.routed_experts)
        odd = (free.routed_experts.astype(np.int64) + 1) % self.llm.info["num_routed_experts"]
        other = self.llm.score([PROMPT], [free.token_ids], params(), routed_experts=[odd])[0].outputs[0]
        self.assertNotEqual(other.token_logprobs, free.token_logprobs)
        np.testing.assert_array_equal(other.routed_experts, odd)
        router = np.full_like(odd, -1).tolist()
        decided = self.llm.score([PROMPT], [free.token_ids], params(), routed_experts=[router])[0].outputs[0]
        self.assertEqual(decided.token_logprobs, free.token_logprobs)

    def test_routes_that_cannot_be_are_named(self) -> None:
        free = self.llm.generate(PROMPT, params())[0].outputs[0]
        for change, text in [
            (lambda r: r[:, :, :1], "slots"),
            (lambda r: r[:3], "3 rows"),
            (lambda r: r[0], "tokens, layers, top-k"),
            (lambda r: np.where(np.arange(len(r))[:, None, None] == 2, 0, r), "token 2, layer 0 names expert 0 twice"),
            (lambda r: r + 100, "token 0, layer 0 names expert"),
            (lambda r: np.where((np.indices(r.shape) == 1).all(0), -1, r), r"token 1, layer 1 has 1 of 3 slots at -1"),
        ]:
            output = self.llm.score(PROMPT, free.token_ids, params(), routed_experts=change(free.routed_experts))
            error = output[0].outputs[0].error
            self.assertIsInstance(error, BadInputError)
            self.assertRegex(str(error), text)
        with self.assertRaisesRegex(BadInputError, "whole numbers"):
            self.llm.score(PROMPT, free.token_ids, params(), routed_experts=free.routed_experts + 0.5)
        with self.assertRaisesRegex(BadInputError, "2 routed_experts were given for 1 prompts"):
            self.llm.score([PROMPT], [free.token_ids], params(), routed_experts=[None, None])

    def test_streams_give_new_rows_or_all(self) -> None:
        whole = self.routes()

        async def read() -> None:
            llm = AsyncLLM(checkpoint(MODEL), **ON)
            parts = []
            async for output in llm.generate(PROMPT, params(output_kind=RequestOutputKind.DELTA)):
                if output.outputs[0].routed_experts is not None:
                    parts.append(output.outputs[0].routed_experts)
            np.testing.assert_array_equal(np.concatenate(parts), whole)
            for kind in (RequestOutputKind.CUMULATIVE, RequestOutputKind.FINAL_ONLY):
                last = [output async for output in llm.generate(PROMPT, params(output_kind=kind))][-1]
                np.testing.assert_array_equal(last.outputs[0].routed_experts, whole)
            llm.shutdown()

        asyncio.run(read())

    def test_all_layers_are_an_option(self) -> None:
        with LLM(checkpoint(MODEL), routed_experts_layers="all", **ON) as llm:
            routes = llm.generate(PROMPT, params())[0].outputs[0].routed_experts
            layers = self.llm.info["routed_experts_layers"]
            self.assertGreaterEqual(routes.shape[1], layers)
            dummy = np.arange(routes.shape[2])
            empty = [layer for layer in range(routes.shape[1]) if (routes[:, layer] == dummy).all()]
            kept = [layer for layer in range(routes.shape[1]) if layer not in empty]
            self.assertEqual(len(kept), layers)
            np.testing.assert_array_equal(routes[:, kept], self.routes())

    def test_fb237_what_cannot_be_recorded_is_an_error(self) -> None:
        with self.assertRaisesRegex(BadInputError, "no experts"):
            LLM(checkpoint("llama"), enable_return_routed_experts=True)
        with self.assertRaisesRegex(BadInputError, "routed_experts_layers"):
            LLM(checkpoint(MODEL), routed_experts_layers="all")
        with LLM(checkpoint(MODEL), num_threads=1) as llm:
            self.assertIsNone(llm.generate(PROMPT, params())[0].outputs[0].routed_experts)
            with self.assertRaisesRegex(BadInputError, "without enable_return_routed_experts"):
                llm.generate(PROMPT, params(routed_experts_prompt_start=2))


@needs_native
@needs_numpy
class ExpertCountsTest(unittest.TestCase):
    """Models made for the test."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="rlgen-experts-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_fb231_ids_come_in_the_narrowest_type(self) -> None:
        for count, dtype in ((128, np.int8), (129, np.int16), (32768, np.int16), (32769, np.int32)):
            folder = expert_checkpoints.write_many_experts(self.folder / str(count), count)
            with self.subTest(count=count), LLM(folder, **ON) as llm:
                self.assertEqual(llm.info["num_routed_experts"], count)
                prompt: Any = {"prompt_token_ids": PROMPT, "routed_experts": [[[count - 1, 0, 1]]] * 3}
                routes = llm.generate(prompt, params())[0].outputs[0].routed_experts
                self.assertEqual(routes.dtype, dtype)
                self.assertEqual(routes[:3].tolist(), [[[count - 1, 0, 1]]] * 3)
                self.assertTrue(((routes >= 0) & (routes < count)).all())

    def test_wrong_counts_are_named_at_load(self) -> None:
        name = "model.layers.2.mlp.experts.5.up_proj.weight"
        cases: list[tuple[dict[str, Any], str | None, str]] = [
            ({"num_experts": 9}, None, r"expected \[9, 32\] \(num_experts is 9\)"),
            ({"num_experts_per_tok": 9}, None, "num_experts_per_tok is 9, but num_experts is 8"),
            ({}, name, f'"{name}".*num_experts is 8.*missing'),
        ]
        for number, (changes, missing, text) in enumerate(cases):
            folder = self.folder / str(number)
            tensors = expert_checkpoints.copy_checkpoint(MODEL, folder, changes)
            tensors.pop(missing or "", None)
            expert_checkpoints.write_tensors(folder / "model.safetensors", tensors)
            with self.subTest(text=text), self.assertRaisesRegex(BadInputError, text):
                LLM(folder)


@needs_native
@needs_numpy
@needs_pydantic
class BatchOfRoutesTest(unittest.TestCase):
    """The backend "rlgen" with routes."""

    def backend(self) -> RlgenGeneration:
        made = RlgenGeneration(config(MODEL, rlgen_cfg=ON))
        self.addCleanup(made.shutdown)
        return made

    def test_t13_columns_of_a_batch(self) -> None:
        output: Any = self.backend().generate(batch([5, 9, 2], [7, 8, 9, 10, 11]), False)
        rows, width = output["output_ids"].shape
        routes = output["routed_experts"]
        self.assertEqual(routes.shape[:2], (rows, width))
        self.assertEqual(routes.dtype, np.int8)
        lengths = output["unpadded_sequence_lengths"]
        np.testing.assert_array_equal(output["r3_routed_experts_expected_routes"], lengths - 1)
        np.testing.assert_array_equal(output["r3_routed_experts_actual_routes"], lengths - 1)
        np.testing.assert_array_equal(output["r3_routed_experts_missing_routes"], [0, 0])
        dummy = np.broadcast_to(np.arange(routes.shape[3]), routes.shape[2:])
        for row, length in enumerate(lengths):
            for place in range(length - 1, width):
                np.testing.assert_array_equal(routes[row, place], dummy)
        # Each row is of the token at its place, as a score of the same ids finds it.
        with LLM(checkpoint(MODEL), **ON) as llm:
            for row, (length, prompt) in enumerate(zip(lengths, (3, 5), strict=True)):
                ids = output["output_ids"][row].tolist()
                scored = llm.score(ids[:prompt], ids[prompt:length], params())[0].outputs[0]
                np.testing.assert_array_equal(routes[row, : length - 1], scored.routed_experts)

    def test_t13_missing_routes_are_told(self) -> None:
        backend = self.backend()
        full = list(range(1, 2)) * backend._engine.info["max_model_len"]
        with self.assertLogs("rlgen", "WARNING") as log:
            output: Any = backend.generate(batch([5, 9, 2], full), False)
        self.assertIn("R3 router replay fallback: 1 of 2 samples", "".join(log.output))
        self.assertEqual(output["r3_routed_experts_missing_routes"].tolist(), [0, len(full) - 1])
        self.assertTrue((output["routed_experts"][1, : len(full) - 1] == -1).all())

    def test_one_sample_streams_its_routes(self) -> None:
        backend = self.backend()
        whole: Any = backend.generate(batch([5, 9, 2], seeds=[3]), False)

        async def read() -> Any:
            return [output async for _, output in backend.generate_async(batch([5, 9, 2], seeds=[3]))][0]

        streamed = asyncio.run(read())
        np.testing.assert_array_equal(streamed["routed_experts"], whole["routed_experts"])

    def test_fb237_router_replay_needs_recording(self) -> None:
        policy: Any = {"generation": config(MODEL), "router_replay": {"enabled": True}}
        with self.assertRaisesRegex(ValueError, r"rlgen_cfg\.enable_return_routed_experts"):
            RlgenGeneration.validate_settings({"policy": policy})
        policy["generation"]["rlgen_cfg"] = ON
        RlgenGeneration.validate_settings({"policy": policy})


if __name__ == "__main__":
    unittest.main()
