"""Runs the built command line on fixture checkpoints; RLGEN_BINARY names it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "tests" / "fixtures" / "checkpoints"
PROGRAM = Path(os.environ.get("RLGEN_BINARY", ROOT / "build" / "release" / "bin" / "rlgen"))
TIMEOUT = 120

Line = dict[str, Any]


@dataclass
class Result:
    """What a run left behind."""

    code: int
    stdout: str
    stderr: str
    lines: list[Line] = field(default_factory=list)

    def by_key(self) -> dict[tuple[str, int | None], Line]:
        """The output lines by id and sample."""
        return {(line["id"], line["sample"]): line for line in self.lines}

    def one(self) -> Line:
        """The only output line."""
        if len(self.lines) != 1:
            raise AssertionError(f"{len(self.lines)} lines: {self.stderr}")
        return self.lines[0]


def read_lines(path: Path) -> list[Line]:
    """The lines of a JSONL file; every one has to be whole."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        raise AssertionError("the last line is torn")
    return [json.loads(line) for line in text.splitlines()]


def one_thread(options: tuple[object, ...]) -> tuple[object, ...]:
    """Options for a single thread, unless others say how many."""
    return () if "--threads" in options else ("--threads", 1)


class CommandLineTest(unittest.TestCase):
    """A folder of its own for each test and the command line in it."""

    def setUp(self) -> None:
        """Makes the folder."""
        holder = tempfile.TemporaryDirectory(prefix="rlgen-e2e-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def command(self, *arguments: object) -> list[str]:
        """The words of a command."""
        return [str(PROGRAM), *map(str, arguments)]

    def run_rlgen(self, *arguments: object) -> Result:
        """Runs a command to its end."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def write_prompts(self, prompts: list[Line | str | bytes]) -> Path:
        """Writes a prompts file; text and bytes go in as they are."""
        path = self.folder / "prompts.jsonl"
        with path.open("wb") as file:
            for prompt in prompts:
                raw = prompt if isinstance(prompt, bytes) else prompt if isinstance(prompt, str) else json.dumps(prompt)
                file.write((raw if isinstance(raw, bytes) else raw.encode()) + b"\n")
        return path

    def generate(
        self, model: str, prompts: list[Line | str | bytes], *options: object, output: str = "out.jsonl"
    ) -> Result:
        """Rolls prompts out on a fixture checkpoint."""
        path = self.folder / output
        result = self.run_rlgen(
            *("generate", "--model", CHECKPOINTS / model, *one_thread(options)),
            *("--prompts", self.write_prompts(prompts), "--output", path, *options),
        )
        result.lines = read_lines(path)
        return result

    def score(self, model: str, source: Path, *options: object, output: str = "scored.jsonl") -> Result:
        """Scores a file on a fixture checkpoint."""
        path = self.folder / output
        result = self.run_rlgen(
            *(
                "score",
                "--model",
                CHECKPOINTS / model,
                *one_thread(options),
                "--input",
                source,
                "--output",
                path,
                *options,
            )
        )
        result.lines = read_lines(path)
        return result

    def assert_one_error(self, result: Result, code: int, *parts: str) -> None:
        """The run ended with `code` and one line on standard error that has all `parts`."""
        self.assertEqual(result.code, code, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("rlgen: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
