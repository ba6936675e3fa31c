"""LLM: rolling out lists of prompts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar
from unittest import mock

from support import HEEDS_CTRL_C, checkpoint, has, needs_native, needs_numpy

if TYPE_CHECKING or has("rlgen._native"):
    from rlgen import LLM, RlgenError, SamplingParams
    from rlgen import llm as llm_module
    from rlgen.errors import BadInputError, OutOfCapacityError, ShardLostError

FE_DOWNWARD, FE_UPWARD = (0x400, 0x800) if platform.machine() == "x86_64" else (0x800000, 0x400000)


@contextlib.contextmanager
def rounding(direction: int | None) -> Iterator[None]:
    """The calling thread rounds that way meanwhile, as a host may set it."""
    libm = ctypes.CDLL("libm.so.6")
    before = libm.fegetround()
    libm.fesetround(before if direction is None else direction)
    try:
        yield
    finally:
        libm.fesetround(before)


PROMPTS = ["the cat sat", "a", "and then"]


@needs_native
class LLMTest(unittest.TestCase):
    """One tiny random model with a tokenizer."""

    llm: ClassVar[LLM]

    @classmethod
    def setUpClass(cls) -> None:
        cls.llm = LLM(checkpoint("llama_text"), num_threads=1)
        cls.addClassCleanup(cls.llm.shutdown)

    def test_results_carry_everything(self) -> None:
        params = SamplingParams(n=2, max_tokens=5, seed=3, logprobs=2, prompt_logprobs=1, ignore_eos=True)
        outputs = self.llm.generate(PROMPTS, params)
        self.assertEqual([output.prompt for output in outputs], PROMPTS)
        for place, output in enumerate(outputs):
            self.assertEqual(output.request_id, str(place))
            self.assertTrue(output.finished)
            self.assertEqual(output.prompt_token_ids, self.llm.encode(PROMPTS[place]))
            assert output.prompt_logprobs is not None
            self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
            self.assertIsNone(output.prompt_logprobs[0])
            self.assertEqual([sample.index for sample in output.outputs], [0, 1])
            for sample in output.outputs:
                self.assertEqual(len(sample.token_ids), 5)
                self.assertEqual(sample.seed, 3)
                self.assertEqual(sample.finish_reason, "length")
                self.assertTrue(sample.truncated)
                self.assertEqual([(s.begin, s.end, s.version) for s in sample.weight_versions], [(0, 5, 0)])
                self.assertEqual(sample.numerics, self.llm.info["numerics"])
                self.assertEqual(sample.logprobs_mode, "processed")
                self.assertEqual(sample.text, self.llm.decode(sample.token_ids))
                assert sample.logprobs is not None
                for token, value, position in zip(sample.token_ids, sample.token_logprobs, sample.logprobs, strict=True):
                    self.assertEqual(next(iter(position)), token)
                    self.assertEqual(position[token].logprob, value)
                    self.assertLessEqual(len(position), 3)
                    ranks = [entry.rank for entry in position.values() if entry.rank is not None]
                    self.assertEqual(sorted(ranks), [1, 2])
                self.assertAlmostEqual(sample.cumulative_logprob, sum(sample.token_logprobs))

    def test_names_and_defaults_are_those_of_vllm(self) -> None:
        params = SamplingParams()
        self.assertEqual((params.n, params.temperature, params.top_p, params.top_k), (1, 1.0, 1.0, 0))
        self.assertEqual((params.max_tokens, params.logprobs, params.seed), (16, None, None))
        (output,) = self.llm.generate("a")
        self.assertLessEqual(len(output.outputs[0].token_ids), 16)
        self.assertIsNone(output.outputs[0].logprobs)
        self.assertIsNone(output.prompt_logprobs)

    def test_same_bits_alone_and_in_company_and_again(self) -> None:
        params = SamplingParams(max_tokens=12, seed=11)
        together = self.llm.generate(PROMPTS * 5, params)
        for place, prompt in enumerate(PROMPTS):
            (alone,) = self.llm.generate(prompt, params)
            self.assertEqual(alone.outputs[0].token_ids, together[place].outputs[0].token_ids)
            self.assertEqual(alone.outputs[0].token_logprobs, together[place].outputs[0].token_logprobs)

    def test_drawn_seed_makes_the_sample_again(self) -> None:
        (first,) = self.llm.generate("a")
        (again,) = self.llm.generate("a", SamplingParams(seed=first.outputs[0].seed))
        self.assertEqual(first.outputs[0].token_ids, again.outputs[0].token_ids)

    def test_score_equals_generation_bit_for_bit_in_every_mode(self) -> None:
        for mode in ("processed", "tempered", "raw", "raw_logprobs"):
            params = SamplingParams(max_tokens=9, temperature=0.7, top_k=20, top_p=0.9, seed=5, logprobs_mode=mode)
            outputs = self.llm.generate(PROMPTS, params)
            scored = self.llm.score(PROMPTS, [output.outputs[0].token_ids for output in outputs], params)
            for output, score in zip(outputs, scored, strict=True):
                self.assertEqual(score.outputs[0].token_ids, output.outputs[0].token_ids)
                self.assertEqual(score.outputs[0].token_logprobs, output.outputs[0].token_logprobs)

    def test_default_mode_is_that_of_the_model(self) -> None:
        with LLM(checkpoint("table_chain"), num_threads=1, logprobs_mode="raw") as llm:
            (output,) = llm.generate([[3]], SamplingParams(temperature=0.5))
            self.assertEqual(output.outputs[0].logprobs_mode, "raw")

    def test_prompts_as_text_ids_and_messages(self) -> None:
        ids = self.llm.encode("a")
        params = SamplingParams(seed=1, max_tokens=3)
        forms = self.llm.generate(["a", ids, {"prompt": "a"}, {"prompt_token_ids": tuple(ids)}], params)
        self.assertEqual({tuple(output.outputs[0].token_ids) for output in forms}, {tuple(forms[0].outputs[0].token_ids)})
        self.assertEqual(len(self.llm.generate(ids, params)), 1)

    def test_chat_goes_through_the_template(self) -> None:
        if "chat_template" not in checkpoint("llama_text").joinpath("tokenizer_config.json").read_text():
            with self.assertRaisesRegex(BadInputError, "chat template"):
                self.llm.chat([{"role": "user", "content": "a"}])
            return
        one = self.llm.chat([{"role": "user", "content": "a"}], SamplingParams(max_tokens=1))
        two = self.llm.chat([[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]])
        self.assertEqual(one[0].prompt_token_ids, two[0].prompt_token_ids)
        self.assertIsNone(one[0].prompt)

    def test_bad_prompts_and_parameters_name_the_field_before_anything_runs(self) -> None:
        before = self.llm.metrics()["prompt_tokens"]
        for prompts, params, text in [
            (["a", []], None, r"prompts\[1\]: the prompt is empty"),
            (["a", [999]], None, r"prompts\[1\]: prompt_token_ids\[0\] is 999"),
            (["a", [2**40]], None, r"prompts\[1\]: prompt_token_ids\[0\] is 1099511627776"),
            ([{"text": "a"}], None, r"prompts\[0\]: a prompt has the keys \['text'\]"),
            (["a"], SamplingParams(top_p=1.5), r"prompts\[0\]: top_p is 1.5"),
            (["a"], SamplingParams(temperature=-1.0), "temperature"),
            (["a"], [SamplingParams()] * 2, "2 sampling_params were given for 1 prompts"),
            (["a"], SamplingParams(stop=[3]), r"stop\[0\] is 3"),  # type: ignore[list-item]
            ([[1] * 500], None, "500"),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(BadInputError, text) as caught:
                self.llm.generate(prompts, params)
            self.assertIsInstance(caught.exception, ValueError)
            self.assertIsInstance(caught.exception, RlgenError)
        self.assertEqual(self.llm.metrics()["prompt_tokens"], before)
        with self.assertRaises(TypeError):
            SamplingParams(temprature=1.0)  # type: ignore[call-arg]

    @needs_numpy
    def test_prompts_as_arrays(self) -> None:
        import numpy as np

        params = SamplingParams(max_tokens=2, seed=1)
        (expected,) = self.llm.generate([1, 2, 3], params)
        ids = np.array([1, 2, 3])
        for prompts in (ids, [ids], [list(ids)], ids[None, :], list(ids)):
            (output,) = self.llm.generate(prompts, params)  # type: ignore[arg-type]
            self.assertEqual(output.outputs[0].token_ids, expected.outputs[0].token_ids)

    def test_what_is_no_prompt_and_no_parameters_is_said(self) -> None:
        for prompts in (3, None):
            with self.assertRaisesRegex(BadInputError, f"prompts are {prompts}"):
                self.llm.generate(prompts)  # type: ignore[arg-type]
        for params in ({"max_tokens": 2}, [{"max_tokens": 2}]):
            with self.assertRaisesRegex(BadInputError, "give SamplingParams"):
                self.llm.generate("a", params)  # type: ignore[arg-type]

    def test_error_code_for_machines(self) -> None:
        with self.assertRaises(BadInputError) as caught:
            self.llm.generate([[1] * 500])
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_no_prompts_no_results(self) -> None:
        self.assertEqual(self.llm.generate([]), [])

    def test_detokenize_false_leaves_the_text_out(self) -> None:
        params = SamplingParams(max_tokens=3, seed=1, ignore_eos=True)
        quiet = SamplingParams(max_tokens=3, seed=1, ignore_eos=True, detokenize=False)
        outputs = self.llm.generate(["a", "a"], [params, quiet])
        self.assertNotEqual(outputs[0].outputs[0].text, "")
        self.assertEqual(outputs[1].outputs[0].text, "")
        self.assertEqual(outputs[0].outputs[0].token_ids, outputs[1].outputs[0].token_ids)

    def test_progress_bar_counts_samples(self) -> None:
        bar = mock.MagicMock(n=0)
        bar.__enter__.return_value = bar
        bar.update.side_effect = lambda count: setattr(bar, "n", bar.n + count)
        with mock.patch.object(llm_module, "_find_tqdm", return_value=mock.Mock(return_value=bar)):
            self.llm.generate(PROMPTS, SamplingParams(n=2, max_tokens=2))
        self.assertEqual(bar.n, 6)

    def test_other_threads_go_on_meanwhile(self) -> None:
        def tick() -> None:
            while not done.wait(0.001):
                ticks.append(time.monotonic())

        ticks: list[float] = []
        done = threading.Event()
        requests = [self.llm._engine.prepare("a", SamplingParams(max_tokens=100, ignore_eos=True), "x")] * 200
        thread = threading.Thread(target=tick)
        thread.start()
        start = time.monotonic()
        self.llm._engine.native.generate([request.native for request in requests])
        end = time.monotonic()
        done.set()
        thread.join()
        meanwhile = [moment for moment in ticks if start < moment < end]
        self.assertGreater(len(meanwhile), 20)

    def test_error_in_the_progress_bar_ends_the_run(self) -> None:
        request = self.llm._engine.prepare("a", SamplingParams(max_tokens=50, ignore_eos=True), "x")

        def fail(*_: int) -> None:
            raise LookupError("bar")

        with self.assertRaisesRegex(LookupError, "bar"):
            self.llm._engine.native.generate([request.native], True, fail)


@needs_native
class OtherModelsTest(unittest.TestCase):
    """Models with one property each."""

    def test_finish_and_stop_reasons(self) -> None:
        with LLM(checkpoint("table_chain"), num_threads=1) as llm:
            params = SamplingParams(temperature=0.0)
            stopped = SamplingParams(temperature=0.0, stop_token_ids=[5])
            short = SamplingParams(temperature=0.0, max_tokens=1)
            outputs = llm.generate([[3], [3], [3]], [params, stopped, short])
            reasons = [(o.outputs[0].token_ids, o.outputs[0].finish_reason, o.outputs[0].stop_reason) for o in outputs]
            self.assertEqual(reasons, [([4, 5, 6, 2], "stop", None), ([4, 5], "stop", 5), ([4], "length", None)])

    def test_sample_that_fails_fails_alone(self) -> None:
        with LLM(checkpoint("table_nan"), num_threads=1) as llm:
            (output,) = llm.generate([[0]])
            self.assertEqual(output.outputs[0].finish_reason, "error")
            self.assertEqual(output.outputs[0].token_ids, [])
            self.assertIsInstance(output.outputs[0].error, RlgenError)
            self.assertRegex(str(output.outputs[0].error), "finite")

    def test_text_without_a_tokenizer(self) -> None:
        with LLM(checkpoint("llama"), num_threads=1) as llm, self.assertRaisesRegex(BadInputError, "tokenizer"):
            llm.generate("a")

    def test_engines_side_by_side_give_the_same_bits(self) -> None:
        params = SamplingParams(max_tokens=6, seed=2, n=2)
        prompts = [[1], [2], [3], [4], [5]]
        with LLM(checkpoint("llama"), num_threads=1) as one:
            alone = one.generate(prompts, params)
        with LLM(checkpoint("llama"), num_threads=1, data_parallel_size=2) as two:
            shared = two.generate(prompts, params)
        for left, right in zip(alone, shared, strict=True):
            self.assertEqual([s.token_logprobs for s in left.outputs], [s.token_logprobs for s in right.outputs])

    def test_bad_options_are_named(self) -> None:
        """Each with what is allowed."""
        cpus = os.cpu_count() or 1
        for options, text in [
            ({"dtype": "float8"}, "float8"),
            ({"block_size": 7}, "block_size"),
            ({"max_model_len": 0}, "max_model_len is 0"),
            ({"data_parallel_size": 0}, "data_parallel_size is 0"),
            ({"isa": "mmx"}, "mmx"),
            ({"kv_cache_memory_fraction": 0.0}, "kv_cache_memory_fraction is 0; it must be a number from 0.01 to 1"),
            ({"num_threads": 0}, "num_threads is 0; leave it None"),
            ({"num_threads": -1}, f"num_threads is -1; use 1 to {cpus}"),
            ({"num_threads": cpus + 1}, f"num_threads is {cpus + 1}; use 1 to {cpus}"),
            ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0; it must be a whole number from 1"),
        ]:
            with self.subTest(options=options), self.assertRaisesRegex(BadInputError, text):
                LLM(checkpoint("llama"), **options)  # type: ignore[arg-type]
        with self.assertRaisesRegex(OutOfCapacityError, "kv_cache_memory_bytes is 1000; it must be .* from 65536"):
            LLM(checkpoint("llama"), kv_cache_memory_bytes=1000)
        with self.assertRaisesRegex(RlgenError, "nowhere"):
            LLM("/nowhere")

    def test_float_modes_of_the_host_do_not_show(self) -> None:
        """Neither in the frequencies that loading computes nor in the numbers of a request."""
        # Above the middle of two float32 by less than the text of it tells one who rounds down.
        params = SamplingParams(temperature=0.6000000536441804, top_p=0.8, min_p=0.01, max_tokens=12, seed=3, logprobs=1)
        found = []
        for direction in (None, FE_DOWNWARD, FE_UPWARD):
            with rounding(direction), LLM(checkpoint("llama_rope_yarn"), num_threads=1) as llm:
                output = llm.generate([list(range(3, 40))], params)[0].outputs[0]
                self.assertEqual(output.finish_reason, "length")
            found.append((output.token_ids, [value.hex() for value in output.token_logprobs]))
        self.assertEqual(found[1], found[0])
        self.assertEqual(found[2], found[0])

    def test_use_after_shutdown_is_an_error(self) -> None:
        llm = LLM(checkpoint("llama"), num_threads=1)
        llm.shutdown()
        llm.shutdown()
        with self.assertRaises(ShardLostError) as caught:
            llm.generate([[1]])
        self.assertIsInstance(caught.exception, RuntimeError)


LONG_RUN = """
import sys
from rlgen import LLM, SamplingParams
llm = LLM(sys.argv[1], num_threads=1)
print("ready", flush=True)
try:
    llm.generate([[1]] * 3000, SamplingParams(max_tokens=100, ignore_eos=True, detokenize=False))
except KeyboardInterrupt:
    left = llm.generate([[1]], SamplingParams(max_tokens=1))
    print("interrupted", len(left[0].outputs[0].token_ids), flush=True)
"""


@needs_native
class InterruptTest(unittest.TestCase):
    """Ctrl-C."""

    def test_ctrl_c_ends_a_run_and_leaves_the_model_usable(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", HEEDS_CTRL_C + LONG_RUN, str(checkpoint("llama"))],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        with process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.readline(), "interrupted 1\n")
            self.assertEqual(process.wait(timeout=20), 0)


if __name__ == "__main__":
    unittest.main()
