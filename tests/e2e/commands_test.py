"""The commands as a person uses them: streaming, the table, inspect, bench, selftest."""

from __future__ import annotations

import json
import subprocess
import unittest

from harness import CHECKPOINTS, TIMEOUT, CommandLineTest

TEXT = CHECKPOINTS / "llama_text"


class Streaming(CommandLineTest):
    """generate --prompt."""

    def stream(self, *options: object) -> str:
        """What a greedy prompt writes to standard output."""
        result = self.run_rlgen(
            *("generate", "--model", TEXT, "--prompt", "hello", "--temperature", 0, "--max-tokens", 12, *options)
        )
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("tokens", result.stderr)
        return result.stdout

    def test_text_is_streamed(self) -> None:
        """The text alone is on standard output, the same as in a file."""
        made = self.generate("llama_text", [{"prompt": "hello", "temperature": 0, "max_tokens": 12}]).one()
        self.assertTrue(made["text"])
        self.assertEqual(self.stream(), made["text"] + "\n")

    def test_stop_string_does_not_leak(self) -> None:
        """Nothing of a stop string is shown."""
        text = self.stream()[:-1]
        stop = next(text[i : i + 3] for i in range(2, len(text)) if "\n" not in text[i : i + 3] and i > 2)
        self.assertEqual(self.stream("--stop", stop), text.split(stop)[0] + "\n")

    def test_samples(self) -> None:
        """Several samples come under headings."""
        result = self.run_rlgen(
            "generate", "--model", TEXT, "--prompt", "hello", "--chat", "--n", 2, "--max-tokens", 3, "--seed", 4
        )
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("--- sample 0\n", result.stdout)
        self.assertIn("--- sample 1\n", result.stdout)

    def test_seed(self) -> None:
        """The seed that was drawn repeats the run."""
        command = ("generate", "--model", TEXT, "--prompt", "hello", "--max-tokens", 12)
        first = self.run_rlgen(*command)
        seed = first.stderr.rsplit("seed ", 1)[1].strip()
        self.assertEqual(self.run_rlgen(*command, "--seed", seed).stdout, first.stdout)

    def test_standard_output_is_full(self) -> None:
        """Text that could not be written is an error."""
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                self.command("generate", "--model", TEXT, "--prompt", "hello", "--max-tokens", 3),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)

    def test_too_long(self) -> None:
        """A prompt beyond the context."""
        result = self.run_rlgen("generate", "--model", TEXT, "--prompt", "x" * 400)
        self.assert_one_error(result, 1, "400", "128")


class Table(CommandLineTest):
    """generate --table."""

    def test_table(self) -> None:
        """A row for each rollout, with its log-probability."""
        prompts = self.write_prompts([{"prompt": "hello"}, {"id": "b", "prompt": "x", "n": 2}, {"prompt": ""}])
        result = self.run_rlgen(
            *("generate", "--model", TEXT, "--prompts", prompts, "--table", "--max-tokens", 4, "--ignore-eos")
        )
        self.assertEqual(result.code, 1)
        self.assertEqual(len(result.stdout.splitlines()), 5, result.stdout)
        self.assertIn("log-probabilities: processed", result.stdout)
        self.assertIn("1 line failed", result.stderr)
        self.assertIn("3 rollouts, 12 tokens", result.stderr)


class Inspect(CommandLineTest):
    """inspect."""

    def test_fb011_facts(self) -> None:
        """Family, shapes, bytes, stop ids, text side and what decides the bits."""
        result = self.run_rlgen("inspect", "--model", TEXT, "--json")
        self.assertEqual(result.code, 0, result.stderr)
        facts = json.loads(result.stdout)
        self.assertEqual(facts["family"], "llama")
        self.assertEqual(facts["eos_token_ids"], [271, 274])
        self.assertEqual(facts["kv_bytes_per_token"], 2 * facts["layers"] * facts["kv_heads"] * facts["head_dim"] * 4)
        self.assertEqual(facts["chat_templates"], ["default"])
        self.assertTrue(facts["numerics"].startswith("float32/"))
        half = self.run_rlgen("inspect", "--model", TEXT, "--json", "--kv-cache-dtype", "bfloat16")
        self.assertEqual(json.loads(half.stdout)["kv_bytes_per_token"] * 2, facts["kv_bytes_per_token"])
        self.assertNotEqual(json.loads(half.stdout)["numerics"], facts["numerics"])

    def test_tensors(self) -> None:
        """Every tensor with its digest; equal bytes have equal digests."""
        result = self.run_rlgen(
            "inspect", "--model", CHECKPOINTS / "llama_sharded", "--tensors", "--checksums", "--json"
        )
        self.assertEqual(result.code, 0, result.stderr)
        facts = json.loads(result.stdout)
        self.assertIsNone(facts["tokenizer"])
        self.assertTrue(facts["tensors"])
        for tensor in facts["tensors"]:
            self.assertEqual(len(tensor["digest"]), 32, tensor)
        plain = self.run_rlgen("inspect", "--model", CHECKPOINTS / "llama", "--tensors")
        self.assertIn("model.embed_tokens.weight", plain.stdout)

    def test_dtype(self) -> None:
        """Another type for the weights: other bytes in memory, and another digest where that rounds."""
        facts = {}
        for dtype in ("auto", "float32", "float16"):
            result = self.run_rlgen(
                "inspect", "--model", TEXT, "--dtype", dtype, "--json", "--tensors", "--checksums"
            )
            self.assertEqual(result.code, 0, result.stderr)
            facts[dtype] = json.loads(result.stdout)
        self.assertEqual(facts["float32"]["numerics"], facts["auto"]["numerics"])
        self.assertNotEqual(facts["float16"]["numerics"], facts["auto"]["numerics"])
        self.assertLess(facts["float16"]["weight_bytes"], facts["float32"]["weight_bytes"])
        digests = {dtype: facts[dtype]["tensors"][0]["digest"] for dtype in facts}
        self.assertNotEqual(digests["float16"], digests["float32"])


class Speed(CommandLineTest):
    """bench and selftest, on a checkpoint so small that the figures mean nothing."""

    def test_bench(self) -> None:
        """Rows for prefill and decode at each batch, beside the machine's limits."""
        path = self.folder / "bench.json"
        result = self.run_rlgen(
            *("bench", "--model", TEXT, "--threads", 1, "--repeats", 1, "--prefill-tokens", 16),
            *("--decode-tokens", 32, "--json", path, "--max-num-batched-tokens", 2048),
        )
        self.assertEqual(result.code, 0, result.stderr)
        figures = json.loads(path.read_text())
        self.assertEqual(
            [(row["work"], row["batch"]) for row in figures["rows"]],
            [(work, batch) for work in ("prefill", "decode") for batch in (1, 8, 64)],
        )
        for row in figures["rows"]:
            self.assertGreater(row["tokens_per_second"], 0)
            self.assertGreater(row["fraction"], 0)
        self.assertGreater(figures["fma_flops_per_second"], 1e8)
        self.assertGreater(figures["read_bytes_per_second"], 1e8)
        self.assertIn("FMA peak", result.stdout)

    def test_bench_does_not_fit(self) -> None:
        """More tokens than the context has."""
        result = self.run_rlgen("bench", "--model", TEXT, "--prefill-tokens", 100, "--decode-tokens", 100)
        self.assert_one_error(result, 1, "--prefill-tokens 100", "128")

    def test_selftest(self) -> None:
        """Every instruction set of this machine gives the same bits."""
        result = self.run_rlgen("selftest", "--model", TEXT)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        self.assertIn("every check gave equal bits", result.stdout)
        self.assertIn("scalar", result.stdout)
        self.assertNotIn("FAILED", result.stdout)
        kernels = self.run_rlgen("selftest")
        self.assertEqual(kernels.code, 0, kernels.stdout + kernels.stderr)
        self.assertIn("scalar: kernels", kernels.stdout)


if __name__ == "__main__":
    unittest.main()
