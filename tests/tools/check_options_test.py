"""tools/check_options compares help, documentation and tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_options"
TOP = "Usage: rlgen SUBCOMMAND\n\nOptions:\n  -h,--help    Print\n\nSubcommands:\n  run       Runs\n  show      Shows\n"
RUN = "Options:\n  -h,--help   Print\n  --top-k INT [-1]   How many, see --seed\n  --seed INT\n"
SHOW = "Options:\n  --tensors   All\n"
BINARY = """#!/bin/sh
case "$1" in
  run) cat <<'E'
{run}
E
  ;;
  show) cat <<'E'
{show}
E
  ;;
  --help) cat <<'E'
{top}
E
  ;;
  *) exit 3 ;;
esac
"""


def run_on(page: str, test: str, run: str = RUN, top: str = TOP) -> tuple[int, str]:
    """Exit code and output for a binary with this help, this docs/cli.md and this test."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = {"rlgen": BINARY.format(run=run, show=SHOW, top=top), "docs/cli.md": page, "src/cli/a_test.cpp": test}
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "rlgen").chmod(0o755)
        command = [sys.executable, str(TOOL), str(root / "rlgen"), "--root", folder]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr


class CheckOptionsTest(unittest.TestCase):
    """A binary of two commands with three options."""

    def test_all_agree(self) -> None:
        """Every option is in all three places."""
        every = "`--top-k K`, `--seed S`, --tensors"
        self.assertEqual(run_on(every, every), (0, "options: good, 3 of them\n"))

    def test_differences_are_named(self) -> None:
        """Each kind, with the command."""
        code, output = run_on("--top-k --seeds --tensors", '{"--top-k", "--seed"}')
        self.assertEqual(code, 1)
        self.assertIn("--seed of 'rlgen run' is not in docs/cli.md", output)
        self.assertIn("--seeds is in docs/cli.md, but no command has it", output)
        self.assertIn("--tensors of 'rlgen show' occurs in no test", output)
        self.assertIn("options: 3 problems", output)

    def test_part_of_a_name_is_not_the_name(self) -> None:
        """--top-k-more is another option than --top-k."""
        code, output = run_on("--top-k --seed --tensors", "--top-k-more --seed --tensors")
        self.assertEqual(code, 1)
        self.assertIn("--top-k of 'rlgen run' occurs in no test", output)

    def test_no_commands_is_no_success(self) -> None:
        """A help that cannot be read."""
        code, output = run_on("--seed", "--seed", top="nothing")
        self.assertEqual(code, 1)
        self.assertIn("lists no subcommands", output)


if __name__ == "__main__":
    unittest.main()
