"""The command line on the demo model: the page's table, equal bits, scores, a kill in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from harness import ROOT, CommandLineTest, Line, read_lines

MODEL = ROOT / "models" / "SmolLM2-135M-Instruct"
DEMO = ROOT / "examples" / "prompts" / "demo.jsonl"
SLOW_TIMEOUT = 1800
MIXED: list[Line | str | bytes] = [
    {
        "id": f"m{i}",
        "prompt_token_ids": [(1009 * i + 7919 * j) % 49152 for j in range(1 + (5 * i) % 60)],
        "max_tokens": 4 + i % 9,
        "temperature": (0, 0.3, 0.7, 1.0)[i % 4],
        "top_p": (1, 0.9)[i % 2],
        "top_k": (-1, 40)[i % 3 == 0],
    }
    for i in range(64)
]


def setUpModule() -> None:
    """Gets the model where it is not there."""
    if not (MODEL / "model.safetensors").is_file():
        python = ROOT / ".venv" / "bin" / "python"
        tool = str(ROOT / "tools" / "fetch_demo_model.py")
        subprocess.run([str(python) if python.is_file() else sys.executable, tool], cwd=ROOT, check=True)


class DemoModel(CommandLineTest):
    """SmolLM2-135M-Instruct."""

    def roll(self, prompts: Path, output: str, *options: object) -> list[Line]:
        """Rolls a file of prompts out; the lines by id and sample."""
        path = self.folder / output
        done = subprocess.run(
            self.command("generate", "--model", MODEL, "--prompts", prompts, "--output", path, *options),
            capture_output=True,
            text=True,
            timeout=SLOW_TIMEOUT,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.table = done.stdout
        return sorted(read_lines(path), key=lambda line: (line["id"], line["sample"]))

    def test_the_readme_shows_what_the_demo_prints(self) -> None:
        """The table of README.md, figure for figure."""
        self.roll(DEMO, "demo.jsonl", "--table")
        self.assertIn(self.table, (ROOT / "README.md").read_text())

    def test_equal_bits(self) -> None:
        """64 mixed prompts in a batch and one by one, on every instruction set, one thread and two."""
        prompts = self.write_prompts(MIXED)
        expected = self.roll(prompts, "batch.jsonl", "--seed", 5)
        self.assertEqual(self.roll(prompts, "single.jsonl", "--seed", 5, "--max-num-seqs", 1), expected)
        listed = self.run_rlgen("selftest").stdout
        for isa in ("avx2", "avx512", "neon"):
            if f"{isa}: kernels" not in listed:
                continue
            for threads in (1, 2):
                with self.subTest(isa=isa, threads=threads):
                    name = f"{isa}{threads}.jsonl"
                    made = self.roll(prompts, name, "--seed", 5, "--isa", isa, "--threads", threads)
                    self.assertEqual(made, expected)

    def test_equal_bits_scalar(self) -> None:
        """The scalar code is slow: four of the prompts."""
        expected = self.roll(self.write_prompts(MIXED[:4]), "best.jsonl", "--seed", 5)
        scalar = self.roll(self.folder / "prompts.jsonl", "scalar.jsonl", "--seed", 5, "--isa", "scalar")
        self.assertEqual(scalar, expected)

    def test_scores(self) -> None:
        """The scores of a file are its log-probabilities, in all three modes."""
        prompts = self.write_prompts(MIXED[:32])
        for mode in ("raw", "tempered", "processed"):
            made = self.roll(prompts, f"{mode}.jsonl", "--logprobs-mode", mode)
            scored = self.folder / f"scored-{mode}.jsonl"
            done = subprocess.run(
                self.command("score", "--model", MODEL, "--input", self.folder / f"{mode}.jsonl", "--output", scored),
                capture_output=True,
                text=True,
                timeout=SLOW_TIMEOUT,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(read_lines(scored), key=lambda line: (line["id"], line["sample"])), made)

    def test_kill_and_resume(self) -> None:
        """Kill -9 in the middle, then --resume: the same lines as without."""
        prompts = self.write_prompts(MIXED)
        expected = self.roll(prompts, "whole.jsonl", "--seed", 5)
        output = self.folder / "killed.jsonl"
        command = self.command("generate", "--model", MODEL, "--prompts", prompts, "--output", output)
        with subprocess.Popen([*command, "--seed", "5", "--max-num-seqs", "4"], stderr=subprocess.DEVNULL) as running:
            deadline = time.monotonic() + SLOW_TIMEOUT
            while not output.exists() or output.read_bytes().count(b"\n") < 10:
                self.assertIsNone(running.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            running.send_signal(signal.SIGKILL)
        self.assertLess(output.read_bytes().count(b"\n"), len(expected))
        self.assertEqual(self.roll(prompts, "killed.jsonl", "--resume"), expected)

    def test_chat_answers(self) -> None:
        """The model is what it says it is."""
        result = self.run_rlgen(
            *("generate", "--model", MODEL, "--chat", "--prompt", "What is the capital of France?", "--temperature", 0)
        )
        self.assertEqual((result.code, result.stdout), (0, "The capital of France is Paris.\n"), result.stderr)

    def test_bench_figures(self) -> None:
        """The rows of this model, each with its share of the limit; what is left out says why."""
        path = self.folder / "bench.json"
        done = subprocess.run(
            self.command("bench", "--model", MODEL, "--repeats", 1, "--json", path),
            capture_output=True,
            text=True,
            timeout=SLOW_TIMEOUT,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["row"]: row for row in json.loads(path.read_text())["rows"]}
        self.assertEqual({row for row in rows if "skipped" in rows[row]}, {"attention/16k", "attention/32k"})
        for name, row in rows.items():
            self.assertGreater(row.get("fraction", 1), 0, name)
            self.assertLess(row.get("fraction", 0), 1.5, name)
        self.assertGreaterEqual(rows["memory"]["value"], rows["memory"]["details"]["packed_weights_mb"])


if __name__ == "__main__":
    unittest.main()
