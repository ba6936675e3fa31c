"""Input pipes that deliver nothing: a signal ends the run at once, and nothing is held up by them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness import CHECKPOINTS, TIMEOUT, CommandLineTest, Line, read_lines

AT_ONCE = 10.0  # seconds, on a busy machine
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def prompt(name: str) -> Line:
    """A prompt for generate."""
    return {"id": name, "prompt_token_ids": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}


def scored(name: str) -> Line:
    """The same for score."""
    return {"id": name, "prompt_token_ids": [1, 2, 3], "token_ids": [4, 5]}


class SilentPipes(CommandLineTest):
    """generate and score read a pipe that stays open."""

    def wait_until(self, condition: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
        """Waits for something that a running command does."""
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertIsNone(running.poll(), "the run has ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def lines_of(self, output: Path) -> int:
        """How many whole lines there are."""
        return output.read_bytes().count(b"\n") if output.exists() else 0

    @contextmanager
    def reading(self, command: str, source: str | Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The command with that input; it is killed where a test fails."""
        option = "--prompts" if command == "generate" else "--input"
        arguments = (command, "--model", CHECKPOINTS / "llama_text", "--threads", 1, option, source)
        with subprocess.Popen(
            self.command(*arguments, "--output", output), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as running:
            try:
                yield running
            finally:
                running.kill()

    def stop(self, running: subprocess.Popen[bytes], how: signal.Signals) -> None:
        """A signal ends the run at once, with its exit code."""
        start = time.monotonic()
        running.send_signal(how)
        self.assertEqual(running.wait(TIMEOUT), SIGNALS[how])
        self.assertLess(time.monotonic() - start, AT_ONCE)

    def give(self, stream: IO[bytes] | None, text: str) -> None:
        """Writes into the pipe."""
        assert stream is not None
        stream.write(text.encode())
        stream.flush()

    def test_a_signal_ends_the_wait(self) -> None:
        """Whatever the pipe has delivered: a line, a part of one, nothing; what was done is whole."""
        for command, line in (("generate", prompt("a")), ("score", scored("a"))):
            for how in SIGNALS:
                for given, lines in ((json.dumps(line) + "\n", 1), (json.dumps(line) + '\n{"id', 1), ("", 0), ("{", 0)):
                    with self.subTest(command=command, how=how, given=given):
                        output = self.folder / "out.jsonl"
                        output.unlink(missing_ok=True)
                        with self.reading(command, "/dev/stdin", output) as running:
                            self.give(running.stdin, given)
                            self.wait_until(lambda: output.exists() and self.lines_of(output) >= lines, running)
                            self.stop(running, how)
                        self.assertEqual(len(read_lines(output)), lines)

    def test_a_named_pipe_without_a_writer(self) -> None:
        """It is not even open at the other end."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for command in ("generate", "score"):
            for how in SIGNALS:
                with self.subTest(command=command, how=how):
                    output = self.folder / f"{command}-{how}.jsonl"
                    with self.reading(command, pipe, output) as running:
                        self.wait_until(output.exists, running)
                        self.stop(running, how)
                    self.assertEqual(output.read_bytes(), b"")

    def test_what_a_signal_stopped_can_be_resumed(self) -> None:
        """The rest comes from a file afterwards."""
        output = self.folder / "out.jsonl"
        with self.reading("generate", "/dev/stdin", output) as running:
            self.give(running.stdin, json.dumps(prompt("a")) + "\n")
            self.wait_until(lambda: self.lines_of(output) == 1, running)
            self.stop(running, signal.SIGINT)
        result = self.generate("llama_text", [prompt("a"), prompt("b")], "--resume")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual([line["id"] for line in result.lines], ["a", "b"])

    def test_answers_come_before_the_next_line(self) -> None:
        """A writer that waits for each answer before it sends more gets one; so does one that stops inside a line."""
        for command, line_of in (("generate", prompt), ("score", scored)):
            with self.subTest(command=command):
                output = self.folder / f"{command}.jsonl"
                with self.reading(command, "/dev/stdin", output) as running:
                    for i in range(4):
                        self.give(running.stdin, json.dumps(line_of(str(i))) + "\n" + '{"id": "x", ')
                        self.wait_until(lambda i=i: self.lines_of(output) == 2 * i + 1, running)
                        self.give(running.stdin, '"nothing": 1}\n')
                        self.wait_until(lambda i=i: self.lines_of(output) == 2 * i + 2, running)
                    assert running.stdin is not None
                    running.stdin.close()
                    self.assertEqual(running.wait(TIMEOUT), 1)
                self.assertEqual(len(read_lines(output)), 8)


if __name__ == "__main__":
    unittest.main()
