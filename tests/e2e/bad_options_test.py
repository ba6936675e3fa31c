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
            ("--kv-cache-memory-bytes", 1000, ("is 1000", "from 65536", "--max-model-len 128", "memory of this")),
            ("--kv-cache-memory-fraction", 0, ("is 0;", "from 0.01 to 1")),
            ("--kv-cache-memory-fraction", 1.5, ("is 1.5;", "from 0.01 to 1")),
            ("--kv-cache-memory-bytes", 10**15, ("is 1000000000000000", "at most", "memory of this machine")),
            ("--kv-cache-memory-bytes", 1 << 63, (f"is {1 << 63}", "at most", "memory of this machine")),
            ("--max-model-len", 129, ("is 129", "2 to 128", "config.json")),
            ("--max-model-len", 1, ("is 1,", "2 to 128", "config.json")),
            ("--max-model-len", 3 * 10**9, ("is 3000000000,", "2 to 128", "config.json")),
            ("--max-num-batched-tokens", 0, ("is 0;", "from 1 to 16777216")),
            ("--max-num-seqs", 0, ("is 0;", "from 1 to 1048576")),
            ("--max-num-seqs", 1 << 40, (f"is {1 << 40};", "from 1 to 1048576")),
            ("--stop-token-ids", 285, ("is 285", "from 0 to 284")),
            ("--stop-token-ids", 3 * 10**9, ("is 3000000000", "from 0 to 284")),
            ("--stop-token-ids", -1, ("is -1", "from 0 to 284")),
            ("--block-size", 24, ("is 24", "multiple of 16")),
            ("--kv-cache-dtype", "int8", ("'int8'", "float32")),
            ("--dtype", "int8", ("'int8'", "float32")),
        ]
        for option, value, parts in cases:
            with self.subTest(option=option, value=value):
                self.refuse(2, (option, *parts), *run, option, value)
        self.assertFalse((self.folder / "o").exists())
        self.refuse(2, ("--isa 'mmx'",), "bench", "--model", CHECKPOINTS / "llama_text", "--isa", "mmx")

    def test_the_context_has_one_rule(self) -> None:
        """Every command that opens a model refuses the same lengths in the same words."""
        model = ("--model", CHECKPOINTS / "llama_text")
        commands = (
            ("inspect", *model),
            ("generate", *model, "--prompt", "x"),
            ("bench", *model),
            ("selftest", *model),
            ("diff", *model, "--prompt-token-ids", "1", "--left", "isa=scalar"),
        )
        for length in (-1, 1, 129, 1 << 40):
            for command in commands:
                with self.subTest(command=command[0], length=length):
                    parts = (f"--max-model-len is {length}, but ", "allows 2 to 128")
                    self.refuse(2, parts, *command, "--max-model-len", length)

    def test_texts_need_a_tokenizer(self) -> None:
        """Options in words are refused at the start where the model knows none; nothing is written."""
        prompts = self.write_prompts([GOOD])
        model = ("generate", "--model", CHECKPOINTS / "llama")
        run = (*model, "--prompts", prompts, "--output", self.folder / "o")
        self.refuse(2, ("--stop needs a tokenizer",), *run, "--stop", "x")
        self.refuse(2, ("--bad-words needs a tokenizer",), *run, "--bad-words", "x")
        self.refuse(2, ("--prompt needs a tokenizer",), *model, "--prompt", "x")
        chat = ("generate", "--model", CHECKPOINTS / "table_stories", "--prompt", "x", "--chat")
        self.refuse(2, ("--chat needs a chat template",), *chat)
        self.assertFalse((self.folder / "o").exists())

    def test_prompt_with_options_that_do_not_fit(self) -> None:
        """With --prompt everything is an option."""
        run = ("generate", "--model", CHECKPOINTS / "llama_text", "--prompt", "x")
        self.refuse(2, ("--output-prefix-len is 9; it must be at most",), *run, "--output-prefix-len", 9)
        self.refuse(2, ("--max-model-len is 2",), *run[:-1], "x" * 50, "--max-model-len", 2)

    def test_ids_of_diff(self) -> None:
        """Ids that the model does not have, from the option or from a file."""
        run = ("diff", "--model", CHECKPOINTS / "llama", "--left", "isa=scalar")
        for wrong in (160, -1, 3 * 10**9):
            self.refuse(2, ("--prompt-token-ids", str(wrong), "0 to 159"), *run, f"--prompt-token-ids=1,{wrong}")
        lines = self.write_prompts([{"prompt_token_ids": [1]}, {"prompt_token_ids": [160]}])
        self.refuse(2, (f"{lines} line 2", "160", "0 to 159"), *run, "--input", lines)

    def test_errors_of_lines_name_who_set_the_value(self) -> None:
        """The option where it came from there, the field where the line has it."""
        prompts: list[Line | str | bytes] = [
            {"id": "both", "prompt_token_ids": [1, 2, 3, 4]},
            {"id": "line", "prompt_token_ids": [1, 2, 3, 4], "min_tokens": 9, "output_prefix_len": 0},
            {"id": "shorter", "prompt_token_ids": [1, 2, 3, 4], "max_tokens": 2},
            {"id": "prefix", "prompt_token_ids": [1], "max_tokens": 8},
            {"id": "own", "prompt_token_ids": [1], "output_prefix_len": 3},
            {"id": "long", "prompt_token_ids": [1] * 40},
        ]
        options = ("--min-tokens", 3, "--max-tokens", 8, "--output-prefix-len", 2, "--max-model-len", 32)
        result = self.generate("llama_text", prompts, *options)
        self.assertEqual(result.code, 1, result.stderr)
        errors = {line["id"]: line["error"] for line in result.lines if "error" in line}
        messages = {name: error["message"] for name, error in errors.items()}
        self.assertEqual(set(messages), {"line", "shorter", "prefix", "own", "long"})
        self.assertIn("min_tokens is 9; it must be at most --max-tokens, which is 8", messages["line"])
        self.assertNotIn("--min-tokens", messages["line"])
        self.assertEqual(messages["shorter"], "--min-tokens is 3; it must be at most max_tokens, which is 2")
        self.assertTrue(messages["prefix"].startswith("--output-prefix-len is 2; "), messages["prefix"])
        self.assertTrue(messages["own"].startswith("output_prefix_len is 3; "), messages["own"])
        self.assertIn("--max-model-len is 32", messages["long"])
        self.assertEqual(errors["long"]["code"], "context_length_exceeded")
        for message in messages.values():
            self.assertIn(message, result.stderr)

    def test_model_missing(self) -> None:
        """A model that is neither a folder nor in the cache; the error says how to get it."""
        self.refuse(1, ("nobody/nothing", "download"), "generate", "--model", "nobody/nothing", "--prompt", "x")


if __name__ == "__main__":
    unittest.main()
