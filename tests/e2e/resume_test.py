"""A run that is killed, stopped or torn goes on and ends with the lines of a run that was not."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import CHECKPOINTS, TIMEOUT, CommandLineTest, Line, read_lines

PROMPTS: list[Line | str | bytes] = [
    {"id": f"p{i}", "prompt_token_ids": [1 + i % 7] * (1 + i % 5), "n": 1 + i % 3, "max_tokens": 60} for i in range(30)
]
PROMPTS.insert(12, {"id": "bad", "prompt_token_ids": []})
ROLLOUTS = sum(1 + i % 3 for i in range(30)) + 1
MODEL = CHECKPOINTS / "llama"


class Resume(CommandLineTest):
    """Files of thirty prompts on a small checkpoint."""

    whole = b""

    def arguments(self, output: Path, *options: object) -> list[str]:
        """The command that rolls the prompts out, slowly: few sequences at once, scalar kernels."""
        return self.command(
            *("generate", "--model", MODEL, "--threads", 1, "--isa", "scalar", "--max-num-seqs", 2),
            *("--prompts", self.folder / "prompts.jsonl", "--output", output, *options),
        )

    def finish(self, output: Path, *options: object) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        return subprocess.run(
            self.arguments(output, *options), capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    def stop_in_the_middle(self, output: Path, how: signal.Signals, *options: object) -> int:
        """Sends a signal once some lines are there; the exit code."""
        with subprocess.Popen(
            self.arguments(output, *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            deadline = time.monotonic() + TIMEOUT
            while not output.exists() or output.read_bytes().count(b"\n") < 10:
                self.assertIsNone(running.poll(), "the run ended before it could be stopped")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
            running.send_signal(how)
            return running.wait(TIMEOUT)

    def sorted_lines(self, output: Path) -> list[str]:
        """The lines as a set: sorted."""
        read_lines(output)
        return sorted(output.read_text().splitlines())

    def whole_run(self) -> list[str]:
        """The lines of a run that nothing stops, made once and put into this test's folder."""
        self.write_prompts(PROMPTS)
        whole = self.folder / "whole.jsonl"
        if not Resume.whole:
            done = self.finish(whole, "--seed", 42)
            self.assertEqual(done.returncode, 1, done.stderr)
            Resume.whole = whole.read_bytes()
        whole.write_bytes(Resume.whole)
        lines = self.sorted_lines(whole)
        self.assertEqual(len(lines), ROLLOUTS)
        return lines

    def test_kill_and_resume(self) -> None:
        """Kill -9, then --resume: the same lines."""
        whole = self.whole_run()
        output = self.folder / "killed.jsonl"
        self.assertEqual(self.stop_in_the_middle(output, signal.SIGKILL, "--seed", 42), -signal.SIGKILL)
        self.assertLess(output.read_bytes().count(b"\n"), ROLLOUTS)
        done = self.finish(output, "--seed", 42, "--resume")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 line failed", done.stderr)
        self.assertEqual(self.sorted_lines(output), whole)

    def test_interrupt_and_resume(self) -> None:
        """SIGINT: exit code 130, whole lines, nothing aborted in the file."""
        whole = self.whole_run()
        output = self.folder / "stopped.jsonl"
        self.assertEqual(self.stop_in_the_middle(output, signal.SIGINT, "--seed", 42), 130)
        reasons = {line["finish_reason"] for line in read_lines(output)}
        self.assertNotIn("abort", reasons)
        self.finish(output, "--resume")
        self.assertEqual(self.sorted_lines(output), whole)

    def test_terminate(self) -> None:
        """SIGTERM stops between two lines too."""
        self.write_prompts(PROMPTS)
        output = self.folder / "stopped.jsonl"
        self.assertEqual(self.stop_in_the_middle(output, signal.SIGTERM), 143)
        self.assertTrue(read_lines(output))

    def test_drawn_seed_is_found_again(self) -> None:
        """Without --seed, the run's seed is in the file and used again."""
        self.write_prompts(PROMPTS)
        output = self.folder / "killed.jsonl"
        self.stop_in_the_middle(output, signal.SIGKILL)
        self.finish(output, "--resume")
        seeds = {line["run_seed"] for line in read_lines(output)}
        self.assertEqual(len(seeds), 1)
        again = self.folder / "again.jsonl"
        self.finish(again, "--seed", seeds.pop())
        self.assertEqual(self.sorted_lines(output), self.sorted_lines(again))

    def test_torn_last_line(self) -> None:
        """Half a line at the end is dropped and made anew, at whatever byte it is torn."""
        whole = self.whole_run()
        content = (self.folder / "whole.jsonl").read_bytes()
        for cut in (1, 7, 200, len(content) // 2):
            with self.subTest(cut=cut):
                output = self.folder / f"torn{cut}.jsonl"
                output.write_bytes(content[:-cut])
                done = self.finish(output, "--resume")
                self.assertIn("torn", done.stderr)
                self.assertEqual(self.sorted_lines(output), whole)

    def test_nothing_left_to_do(self) -> None:
        """Resuming a file that is complete changes nothing."""
        self.whole_run()
        output = self.folder / "whole.jsonl"
        before = output.read_bytes()
        self.finish(output, "--resume")
        self.assertEqual(output.read_bytes(), before)

    def test_a_repaired_prompt(self) -> None:
        """The error of a prompt that is good now goes; those that come again stay as they are."""
        broken: list[Line | str | bytes] = [
            {"id": "good", "prompt_token_ids": [3], "max_tokens": 4},
            {"id": "fixed", "prompt_token_ids": [1, 2], "max_tokens": 4, "topp": 0.5},
            {"id": "bad", "prompt_token_ids": []},
            {"id": "gone", "prompt_token_ids": [999999]},
        ]
        output = self.folder / "repaired.jsonl"
        self.write_prompts(broken)
        self.assertEqual(self.finish(output, "--seed", 1).returncode, 1)
        first = output.read_text().splitlines()
        self.write_prompts([broken[0], {"id": "fixed", "prompt_token_ids": [1, 2], "max_tokens": 4}, broken[2]])
        whole = self.folder / "anew.jsonl"
        self.finish(whole, "--seed", 1)
        done = self.finish(output, "--resume")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 line failed", done.stderr)
        self.assertIn("2 error lines of earlier runs dropped", done.stderr)
        self.assertEqual(self.sorted_lines(output), self.sorted_lines(whole))
        self.assertEqual([name.name for name in self.folder.glob("*.tmp")], [])
        bad = next(line for line in first if '"id":"bad"' in line)
        self.assertIn(bad, output.read_text().splitlines())
        before = output.read_bytes()
        self.finish(output, "--resume")
        self.assertEqual(output.read_bytes(), before)

    def test_the_cache_is_in_the_summary(self) -> None:
        """What came from the prefix cache depends on the run, so it is no part of a line."""
        prompts: list[Line | str | bytes] = [
            {"id": str(i), "prompt_token_ids": [5] * 40, "max_tokens": 2} for i in range(9)
        ]
        self.write_prompts(prompts)
        output = self.folder / "cached.jsonl"
        done = self.finish(output, "--seed", 1)
        self.assertIn("prompt tokens came from the prefix cache", done.stderr)
        self.assertNotIn("cached", output.read_text())
        done = self.finish(output, "--seed", 1, "--overwrite", "--no-enable-prefix-caching")
        self.assertNotIn("prefix cache", done.stderr)

    def test_resume_without_a_file_starts_one(self) -> None:
        """--resume of a file that is not there is a first run."""
        whole = self.whole_run()
        output = self.folder / "fresh.jsonl"
        self.finish(output, "--resume", "--seed", 42)
        self.assertEqual(self.sorted_lines(output), whole)

    def test_other_options_are_refused(self) -> None:
        """Two runs are never mixed in one file."""
        self.whole_run()
        output = self.folder / "whole.jsonl"
        before = output.read_bytes()
        for options, part in ((("--temperature", "0.5"), "temperature"), (("--seed", "43"), "--seed 42")):
            done = self.finish(output, "--resume", *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertEqual(output.read_bytes(), before)

    def test_a_foreign_file_is_refused(self) -> None:
        """A file that holds something else is named with its line and left alone."""
        self.write_prompts(PROMPTS)
        output = self.folder / "notes.jsonl"
        output.write_text(json.dumps({"note": "mine"}) + "\n")
        done = self.finish(output, "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertIn("notes.jsonl line 1", done.stderr)
        self.assertEqual(output.read_text(), '{"note": "mine"}\n')

    def test_disk_full_leaves_whole_lines(self) -> None:
        """The file stops at a whole line and can be resumed when there is room."""
        whole = self.whole_run()
        output = self.folder / "full.jsonl"
        limit = (self.folder / "whole.jsonl").stat().st_size // 2 // 512
        arguments = self.arguments(output, "--seed", 42)
        done = subprocess.run(
            ["bash", "-c", f"trap '' XFSZ; ulimit -f {limit // 2}; exec \"$@\"", "bash", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("full.jsonl", done.stderr)
        self.assertTrue(read_lines(output))
        self.finish(output, "--resume")
        self.assertEqual(self.sorted_lines(output), whole)


if __name__ == "__main__":
    unittest.main()
