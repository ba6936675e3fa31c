"""Options that are wrong, for any run or for this machine and this model, get one line that names them."""

from __future__ import annotations

import os
import platform
import unittest

from harness import CHECKPOINTS, CommandLineTest, Line

GOOD: Line = {"id": "good", "prompt_token_ids": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}


class BadOptions(CommandLineTest):
    """Each ends the run at its start."""

    def refuse(self, code: int, parts: tuple[str, ...], *arguments: object) -> None:
        """The command fails with one line that has `parts`."""
        self.assert_one_error(self.run_rlgen(*arguments), code, *parts)

    def test_options(self) -> None:
        """A mistake in the options is exit code 2."""
        prompts = self.write_prompts([GOOD])
        run = ("generate", "--model", CHECKPOINTS / "llama_text", "--prompts", prompts, "--output", self.folder / "o")
        self.refuse(2, ("--temperature", "-1"), *run, "--temperature", "-1")
        self.refuse(2, ("--temperature", "nan"), *run, "--temperature", "nan")
        self.refuse(2, ("--top-p", "2"), *run, "--top-p", "2")
        self.refuse(2, ("--max-tokens", "0"), *run, "--max-tokens", "0")
        self.refuse(2, ("--tpo-p",), *run, "--tpo-p", "1")
        self.refuse(2, ("fly",), "fly")
        self.assertFalse((self.folder / "o").exists())

    def test_options_of_the_engine(self) -> None:
        """What this machine or this model cannot do names the option and what is allowed; nothing is written."""
        prompts = self.write_prompts([GOOD])
        run = ("generate", "--model", CHECKPOINTS / "llama_text", "--prompts", prompts, "--output", self.folder / "o")
        cpus = os.cpu_count() or 1
        foreign = "neon" if platform.machine() == "x86_64" else "avx2"
        cases: list[tuple[str, object, tuple[str, ...]]] = [
            ("--threads", 0, (f"1 to {cpus}",)),
            ("--threads", cpus + 1, (f"1 to {cpus}",)),
            ("--threads", 1000, (f"1 to {cpus}",)),
            ("--isa", "mmx", ("'mmx' is unknown", "'auto'", "scalar")),
            ("--isa", foreign, (f"'{foreign}' is not", "scalar", "'auto'")),
            ("--kv-cache-memory-bytes", 1000, ("is 1000", "at least", "--max-model-len 128")),
            ("--max-model-len", 129, ("is 129", "1 to 128", "config.json")),
            ("--max-num-batched-tokens", 0, ("range 1 to",)),
            ("--max-num-seqs", 0, ("range 1 to",)),
            ("--max-num-seqs", 1 << 30, ("from 1 to 1048576",)),
            ("--block-size", 24, ("is 24", "multiple of 16")),
            ("--kv-cache-dtype", "int8", ("'int8'", "float32")),
            ("--dtype", "int8", ("'int8'", "float32")),
        ]
        for option, value, parts in cases:
            with self.subTest(option=option, value=value):
                self.refuse(2, (option, *parts), *run, option, value)
        self.assertFalse((self.folder / "o").exists())
        self.refuse(2, ("--isa 'mmx'",), "bench", "--model", CHECKPOINTS / "llama_text", "--isa", "mmx")

    def test_model_missing(self) -> None:
        """A model that is neither a folder nor in the cache; the error says how to get it."""
        self.refuse(1, ("nobody/nothing", "download"), "generate", "--model", "nobody/nothing", "--prompt", "x")


if __name__ == "__main__":
    unittest.main()
