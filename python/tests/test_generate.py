"""RlgenGeneration.generate: layout, sampling, errors. Tests are named by the numbers of the contract."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

from backend_support import PAD, READY, GenerationTest, batch, generated
from support import checkpoint, needs_native, needs_numpy, needs_pydantic, needs_torch

if TYPE_CHECKING or READY:
    import numpy as np

    import rlgen
    from rlgen.errors import BadInputError, PreconditionError
    from rlgen.generation import BatchedDataDict
    from rlgen.generation.interfaces import GenerationSamplingParams, verify_right_padding


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
            (BatchedDataDict({"input_ids": [[1]], "input_lengths": [1]}), PreconditionError, "input_ids is a list"),
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


if __name__ == "__main__":
    unittest.main()
