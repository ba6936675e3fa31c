"""Every option of every command with values that nobody means: one line that names it, and never a crash."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from harness import CHECKPOINTS, CommandLineTest, Result

MODEL = ("--model", CHECKPOINTS / "llama_text")
FILE = "here.jsonl"
# What each command needs beside the option that is looked at.
COMMANDS: dict[str, tuple[object, ...]] = {
    "generate": (*MODEL, "--prompts", FILE, "--output", "out"),
    "score": (*MODEL, "--input", FILE, "--output", "out"),
    "inspect": MODEL,
    "bench": MODEL,
    "selftest": MODEL,
    "diff": (*MODEL, "--input", FILE, "--left", "isa=scalar"),
}
OPTION = re.compile(r"^  (--[a-z-]+) (TEXT|INT|FLOAT)", re.MULTILINE)
# Any text but the empty one is good for these.
TEXTS = {"--prompt", "--stop", "--bad-words"}
INPUTS = {"--prompts", "--input", "--compare", "--reference"}
OUTPUTS = {"--output", "--json", "--plot", "--dump"}
HUGE = "99999999999999999999"
WRONG = ("", "x", "nan", "-7", "1e400", HUGE)
GOOD = {("--temperature", HUGE), ("--repetition-penalty", HUGE), ("--tolerance", HUGE)}
# In place of what the command has otherwise.
INSTEAD = {
    "--prompt": ("--prompts", "--output", "--input"),
    "--prompt-token-ids": ("--input",),
    "--reference": ("--input",),
}


class EveryOption(CommandLineTest):
    """Options as the help lists them, so that a new one is looked at too."""

    def options_of(self, command: str) -> list[str]:
        """The options of a command that take a value."""
        found = [option for option, _ in OPTION.findall(self.run_rlgen(command, "--help").stdout)]
        self.assertIn("--model", found)
        return found

    def arguments(self, command: str, option: str, value: object) -> list[object]:
        """The command with that value, and a model that is there."""
        left_out = {option, *INSTEAD.get(option, ())}
        pairs = zip(COMMANDS[command][::2], COMMANDS[command][1::2], strict=True)
        rest = [word for name, other in pairs if name not in left_out for word in (name, other)]
        files = {FILE: self.folder / FILE, "out": self.folder / "out"}
        return [command, *(files.get(str(word), word) for word in rest), option, value]

    def refuse(self, result: Result, codes: tuple[int, ...], *parts: str) -> None:
        """One line, one of the exit codes, and nothing written."""
        self.assertIn(result.code, codes, result.stderr)
        self.assert_one_error(result, result.code, *parts)
        self.assertFalse((self.folder / "out").exists(), result.stderr)

    def values_of(self, option: str) -> tuple[str, ...]:
        """What is wrong for an option, whatever the model."""
        if option in TEXTS or option in INPUTS | OUTPUTS:
            return ("",)
        return tuple(value for value in WRONG if (option, value) not in GOOD)

    def test_values_that_nobody_means(self) -> None:
        """Empty, of another type, negative, and beyond any type."""
        (self.folder / FILE).write_text('{"prompt_token_ids": [1], "token_ids": [2]}\n')
        for command in COMMANDS:
            for option in self.options_of(command):
                for value in self.values_of(option):
                    with self.subTest(command=command, option=option, value=value):
                        result = self.run_rlgen(*self.arguments(command, option, value))
                        if option == "--model" and value:
                            self.refuse(result, (2,) if command == "diff" else (1,), f'model "{value}"')
                        else:
                            self.refuse(result, (2,), option)

    def test_files_that_are_not_there(self) -> None:
        """Said before the model is looked at, which is not there either; of a folder, and of a file in none."""
        nobody = ("--model", "nobody/nothing")
        (self.folder / FILE).write_text('{"prompt_token_ids": [1], "token_ids": [2]}\n')
        for command in COMMANDS:
            for option in sorted((INPUTS | OUTPUTS) & set(self.options_of(command))):
                for path in (self.folder / "none" / "x", self.folder):
                    with self.subTest(command=command, option=option, path=path):
                        words = self.arguments(command, option, path)
                        words[words.index("--model") : words.index("--model") + 2] = nobody
                        if command == "diff" and option in INPUTS:
                            words[words.index(nobody[0]) : words.index(nobody[0]) + 2] = MODEL
                        result = self.run_rlgen(*words)
                        self.refuse(result, (2,) if command == "diff" else (1,), str(path))

    def test_words_that_are_no_options(self) -> None:
        """Unknown options, values that are missing, and words too many."""
        for command in COMMANDS:
            for words in (("--nothing",), ("--nothing", "1"), ("--model",), ("--block-size", "16", "surplus", "more")):
                with self.subTest(command=command, words=words):
                    (self.folder / FILE).write_text("")
                    result = self.run_rlgen(command, *words)
                    self.assertEqual(result.code, 2, result.stderr)
                    self.assert_one_error(result, 2)
                    self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
