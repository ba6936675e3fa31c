"""The commands as a person uses them: streaming, the table, inspect, bench, selftest."""

from __future__ import annotations

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from harness import CHECKPOINTS, TIMEOUT, CommandLineTest, Line

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
        self.assert_one_error(result, 2, "400", "128")


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
        for profile in ("bfloat16", "bfloat16_amx"):
            rounded = self.run_rlgen("inspect", "--model", TEXT, "--json", "--activation-dtype", profile)
            self.assertTrue(json.loads(rounded.stdout)["numerics"].startswith(f"{profile}/"))

    def test_latent_attention(self) -> None:
        """The cache keeps a latent and a rotated part of each token and layer, once for all heads."""
        result = self.run_rlgen("inspect", "--model", CHECKPOINTS / "deepseek_v3", "--json")
        self.assertEqual(result.code, 0, result.stderr)
        facts = json.loads(result.stdout)
        latent = facts["latent"]
        self.assertEqual(latent["q_lora_rank"], 24)
        stored = latent["kv_lora_rank"] + latent["qk_rope_head_dim"]
        self.assertEqual(facts["head_dim"], stored)
        self.assertEqual(facts["kv_bytes_per_token"], facts["layers"] * stored * 4)

    def test_numerics_are_those_of_the_outputs(self) -> None:
        """Whatever options decide the bits, inspect and generate say the same of them."""
        for options in (
            (),
            ("--dtype", "float16", "--kv-cache-dtype", "bfloat16"),
            ("--activation-dtype", "bfloat16"),
            ("--activation-dtype", "bfloat16", "--kv-cache-dtype", "float32", "--max-model-len", 32),
            ("--activation-dtype", "bfloat16_amx"),
        ):
            with self.subTest(options=options):
                prompt: Line = {"prompt_token_ids": [1], "max_tokens": 1}
                made = self.generate("llama_rope_dynamic", [prompt], "--overwrite", *options)
                facts = self.run_rlgen(
                    "inspect", "--model", CHECKPOINTS / "llama_rope_dynamic", "--json", *options
                )
                self.assertEqual(json.loads(facts.stdout)["numerics"], made.one()["numerics"])

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

    def bench(self, *options: object, model: Path = TEXT) -> dict[str, Line]:
        """The rows of a small run by name, after a look at what is the same for all."""
        path = self.folder / "bench.json"
        result = self.run_rlgen(
            *("bench", "--model", model, "--threads", 1, "--repeats", 1, "--prefill-tokens", 16),
            *("--decode-tokens", 32, "--json", path, "--max-num-batched-tokens", 4096, *options),
        )
        self.assertEqual(result.code, 0, result.stderr)
        self.report = json.loads(path.read_text())
        self.printed = result.stdout
        self.assertGreater(self.report["machine"]["cpus"], 0)
        self.assertTrue(self.report["machine"]["cpu"])
        return {row["row"]: row for row in self.report["rows"]}

    def test_bench(self) -> None:
        """Every row is measured, beside the machine's limits, or says why not."""
        rows = self.bench("--arrival-rate", 1000)
        self.assertIn("needs 2049 positions", rows.pop("prefill/2048")["skipped"])
        for thousands in (1, 2, 4, 8, 16, 32):
            self.assertIn("128 positions", rows.pop(f"attention/{thousands}k")["skipped"])
        memory = rows.pop("memory")
        self.assertTrue("skipped" in memory or memory["details"]["packed_weights_mb"] > 0)
        for waiting in ("", "+10k"):
            self.assertGreater(rows.pop(f"scheduler/256{waiting}")["value"], 0)
        for work in ("decode-1", "decode-64", "prefill"):
            self.assertEqual(rows.pop(f"recording/{work}")["skipped"], "the model has no experts")
        self.assertEqual(len(rows), 1 + 3 + 8 + 1 + 6 + 3)
        for row in rows.values():
            self.assertGreater(row["value"], 0, row)
            self.assertGreater(row["fraction"], 0, row)
            self.assertEqual(row["runs"], 1, row)
        self.assertGreater(rows["sampling/top-p-152k"]["details"]["percent_of_decode_step"], 0)
        self.assertGreaterEqual(
            rows["mixed"]["details"]["ttft_p99_ms"], rows["mixed"]["details"]["ttft_p50_ms"]
        )
        self.assertGreater(self.report["fma_flops_per_second"], 1e8)
        self.assertGreater(self.report["read_bytes_per_second"], 1e8)
        self.assertIn("FMA peak", self.printed)
        self.assertIn("not measured: the context has 128 positions", self.printed)

    def test_bench_chosen_rows(self) -> None:
        """Patterns choose rows; a run is compared with an earlier one and drawn."""
        self.assertEqual(list(self.bench("--rows", "decode/1,prefill/?")), ["prefill/1", "prefill/8", "decode/1"])
        old = self.folder / "old.json"
        (self.folder / "bench.json").rename(old)
        plot = self.folder / "bench.svg"
        rows = self.bench("--rows", "decode/1", "decode/2", "--compare", old, "--plot", plot, "--seconds", 0)
        self.assertEqual(list(rows), ["decode/1", "decode/2"])
        self.assertRegex(self.printed, r"decode/1 +[\d.]+ +[\d.]+ tok/s +[\d.]+x")
        self.assertRegex(self.printed, r"prefill/8 +[\d.]+ +-\n")
        self.assertNotIn("warning", self.printed)
        self.assertIn("decode/2", plot.read_text())

    def test_bench_decode_after_an_update(self) -> None:
        """The second round reads its prompts again: those in the cache are of weights that are gone."""
        result = self.run_rlgen(
            *("bench", "--model", TEXT, "--threads", 1, "--rows", "decode/8,refit/memory", "--repeats", 2),
            *("--prefill-tokens", 48, "--max-num-batched-tokens", 64, "--decode-tokens", 6),
        )
        self.assertEqual(result.code, 0, result.stderr)
        self.assertRegex(result.stdout, r"decode/8 .* 2  arithmetic")

    def test_bench_refit(self) -> None:
        """Updates over each transport, idle and while sequences decode; the weights are the checkpoint's again."""
        rows = self.bench("--rows", "refit/*")
        self.assertEqual(list(rows), ["refit/memory", "refit/disk", "refit/ipc"])
        size = sum(path.stat().st_size for path in TEXT.glob("*.safetensors")) / 1e6
        for row in rows.values():
            details = row["details"]
            self.assertAlmostEqual(details["megabytes"], size, delta=0.1 * size)
            self.assertGreater(details["busy_ms"], 0)
            self.assertGreater(details["step_ms"], 0)
            self.assertIn("lost_steps_p99", details)
        self.assertEqual(rows["refit/ipc"]["limited_by"], "two copies")

    def test_bench_attention(self) -> None:
        """Attention alone reads as much as the context holds, and no faster than a plain read by far."""
        row = self.bench("--rows", "attention/1k", model=self.long_model())["attention/1k"]
        self.assertEqual(row["details"]["megabytes"], 1024 * self.kv_bytes / 1e6)
        self.assertGreater(row["fraction"], 0)

    def test_bench_recording(self) -> None:
        """The cost of recorded routes is told beside the rate without them, whichever the options ask for."""
        for options in ((), ("--enable-return-routed-experts", "--routed-experts-layers", "all")):
            rows = self.bench("--rows", "recording/*", *options, model=self.long_model("qwen3_moe"))
            self.assertEqual(list(rows), ["recording/decode-1", "recording/decode-64", "recording/prefill"])
            for row in rows.values():
                self.assertEqual(row["limited_by"], "no recording")
                details = row["details"]
                self.assertLessEqual(details["overhead_percent_p25"], details["overhead_percent"])
                self.assertLessEqual(details["overhead_percent"], details["overhead_percent_p75"])
                self.assertAlmostEqual(row["fraction"], row["value"] / row["limit"])

    def long_model(self, name: str = "llama") -> Path:
        """A copy of a checkpoint that says it has a long context."""
        folder = self.folder / "long"
        shutil.copytree(CHECKPOINTS / name, folder, dirs_exist_ok=True)
        config = json.loads((folder / "config.json").read_text())
        config["max_position_embeddings"] = 2048
        (folder / "config.json").write_text(json.dumps(config))
        self.kv_bytes = 2 * 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
        return folder

    def test_bench_does_not_fit(self) -> None:
        """More tokens than the context has."""
        result = self.run_rlgen("bench", "--model", TEXT, "--prefill-tokens", 100, "--decode-tokens", 100)
        self.assert_one_error(result, 2, "--prefill-tokens 100", "128")

    def test_bench_bad_files_and_rows(self) -> None:
        """A row that is not there, figures that are none."""
        self.assert_one_error(self.run_rlgen("bench", "--model", TEXT, "--rows", "x"), 2, '"x"', "decode/64")
        wrong = self.folder / "wrong.json"
        wrong.write_text("{}")
        self.assert_one_error(self.run_rlgen("bench", "--model", TEXT, "--compare", wrong), 1, "wrong.json", "schema")

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
