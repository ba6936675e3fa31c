"""The reader of rollout files."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import rlgen
from rlgen import RolloutError, RolloutFormatError, VersionSpan, read_rollouts

table = importlib.import_module("rlgen.__main__")

LINE = {
    "schema": 1,
    "id": "a",
    "sample": 0,
    "prompt_token_ids": [1, 2],
    "token_ids": [3, 4],
    "logprobs": [-0.25, -1.5],
    "logprobs_mode": "processed",
    "text": "two\nwords",
    "finish_reason": "stop",
    "stop_reason": "END",
    "truncated": False,
    "context_full": False,
    "seed": 7,
    "run_seed": 9,
    "weight_version": 0,
    "weight_versions": [{"begin": 0, "end": 2, "version": 0, "oldest_kv": 0}],
    "sampling": {"temperature": 1.0},
    "numerics": "n",
}
FAILED = {
    "schema": 1,
    "id": "b",
    "sample": None,
    "input_line": 1,
    "finish_reason": "error",
    "run_seed": 9,
    "error": {"code": "bad_input", "message": "the prompt is empty"},
}


def without(values: dict, key: str) -> dict:
    """The line without one key."""
    return {name: value for name, value in values.items() if name != key}


class RolloutsTest(unittest.TestCase):
    """Lines as rlgen writes them, and lines that are wrong."""

    def setUp(self) -> None:
        """A folder for files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "out.jsonl"

    def write(self, *lines: dict) -> Path:
        """A file of these lines."""
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return self.path

    def assert_refused(self, message: str, *lines: dict) -> None:
        """Reading ends with this message, which names file and line."""
        with self.assertRaises(RolloutFormatError) as caught:
            list(read_rollouts(self.write(*lines)))
        self.assertIn(message, str(caught.exception))
        self.assertIn(f"{self.path}:{len(lines)}: ", str(caught.exception))

    def test_reads_a_rollout(self) -> None:
        """Every key becomes a field."""
        (rollout,) = read_rollouts(self.write(LINE))
        for key in LINE.keys() - {"schema", "weight_versions"}:
            self.assertEqual(getattr(rollout, key), LINE[key], key)
        self.assertEqual(rollout.weight_versions, [VersionSpan(0, 2, 0, 0)])
        self.assertFalse(rollout.failed)
        self.assertIsNone(rollout.error)

    def test_reads_a_failed_prompt(self) -> None:
        """No sample, no tokens, an error."""
        (rollout,) = read_rollouts(self.write(FAILED))
        self.assertTrue(rollout.failed)
        self.assertIsNone(rollout.sample)
        self.assertEqual(rollout.error, RolloutError("bad_input", "the prompt is empty"))
        self.assertEqual(rollout.token_ids, [])

    def test_reads_side_values(self) -> None:
        """Position 0 of a prompt has no log-probability."""
        line = LINE | {
            "top_logprobs": [[[3, -0.25], [5, -2.0]], [[4, -1.5]]],
            "prompt_logprobs": [None, -3.0],
            "prompt_top_logprobs": [None, [[2, -3.0]]],
        }
        (rollout,) = read_rollouts(self.write(line))
        self.assertEqual(rollout.top_logprobs, [[(3, -0.25), (5, -2.0)], [(4, -1.5)]])
        self.assertEqual(rollout.prompt_logprobs, [None, -3.0])
        self.assertEqual(rollout.prompt_top_logprobs, [None, [(2, -3.0)]])

    def test_text_may_be_missing(self) -> None:
        """A model without a tokenizer gives ids only; the table still shows the rollout."""
        (rollout,) = read_rollouts(self.write(LINE | {"text": None}))
        self.assertIsNone(rollout.text)
        self.assertEqual(table.row_of(rollout, 10)[-1], "")

    def test_refuses_what_is_missing(self) -> None:
        """No default stands in for a missing value."""
        for key in ("id", "sample", "token_ids", "logprobs", "logprobs_mode", "sampling", "finish_reason"):
            self.assert_refused(f'key "{key}" is missing', LINE, without(LINE, key))
        self.assert_refused('key "error" is missing', without(FAILED, "error"))

    def test_refuses_what_is_wrong(self) -> None:
        """Other schemas, other reasons, lists that do not belong together."""
        self.assert_refused("schema is 2; this package reads 1", LINE | {"schema": 2})
        self.assert_refused("finish_reason is 'done'", LINE | {"finish_reason": "done"})
        self.assert_refused("1 logprobs for 2 token_ids", LINE | {"logprobs": [-1.0]})
        self.assert_refused("begin", LINE | {"weight_versions": [{"end": 2}]})

    def test_refuses_a_torn_line(self) -> None:
        """As a killed run leaves it, even where what is there reads as JSON."""
        self.path.write_text(json.dumps(LINE) + "\n" + json.dumps(LINE))
        with self.assertRaisesRegex(RolloutFormatError, ":2: the line is torn"):
            list(read_rollouts(self.path))
        self.path.write_text('{"schema": 1, "id\n')
        with self.assertRaisesRegex(RolloutFormatError, ":1: no JSON"):
            list(read_rollouts(self.path))

    def test_unknown_keys_are_left_alone(self) -> None:
        """A line of the same schema may say more."""
        (rollout,) = read_rollouts(self.write(LINE | {"later": 1}))
        self.assertEqual(rollout.id, "a")

    def test_table(self) -> None:
        """Log-probabilities, failures and totals are shown."""
        output = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["rlgen", str(self.write(LINE, FAILED))]),
            contextlib.redirect_stdout(output),
        ):
            self.assertEqual(table.main(), 0)
        shown = output.getvalue()
        self.assertIn("-1.7500", shown)
        self.assertIn("-0.8750", shown)
        self.assertIn("two words", shown)
        self.assertIn("the prompt is empty", shown)
        self.assertIn("2 rollouts, 2 tokens, 1 failed", shown)

    def test_version_is_that_of_the_build(self) -> None:
        """One version for the binary and the package."""
        lists = Path(__file__).resolve().parents[2] / "CMakeLists.txt"
        found = re.search(r"project\(rlgen VERSION ([\d.]+)", lists.read_text())
        self.assertIsNotNone(found)
        self.assertEqual(rlgen.__version__, found.group(1))


if __name__ == "__main__":
    unittest.main()
