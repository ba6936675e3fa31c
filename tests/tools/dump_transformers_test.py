"""What of tools/dump_transformers.py needs no torch: reading token ids."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "dump_transformers.py"
spec = importlib.util.spec_from_file_location("dump_transformers", TOOL)
assert spec is not None and spec.loader is not None
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


class ReadIds(unittest.TestCase):
    """Ids of the command line and of files."""

    def setUp(self) -> None:
        """A file to write to."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.path = Path(holder.name) / "lines.jsonl"

    def test_command_line(self) -> None:
        """Ids with commas between them."""
        self.assertEqual(tool.parse_ids("1,2,30"), [1, 2, 30])
        for text in ("", "1,,2", "a", "1,-2", "1.5"):
            with self.subTest(text=text), self.assertRaises(tool.InputError):
                tool.parse_ids(text)

    def test_lines(self) -> None:
        """Prompt and output in one; lines with an error are passed over."""
        lines = [
            {"prompt_token_ids": [1, 2], "token_ids": [3]},
            {"error": {"code": "x"}},
            {"prompt_token_ids": [4], "error": None},
        ]
        self.path.write_text("\n\n".join(map(json.dumps, lines)))
        self.assertEqual(tool.read_sequences(self.path), [[1, 2, 3], [4]])

    def test_bad_lines(self) -> None:
        """The message names file and line."""
        for line in ("{", "[]", "{}", '{"prompt_token_ids": []}', '{"prompt_token_ids": [true]}', "\n"):
            with self.subTest(line=line):
                self.path.write_text('{"error": 1}\n' + line)
                with self.assertRaises(tool.InputError) as caught:
                    tool.read_sequences(self.path)
                self.assertIn(str(self.path), str(caught.exception))


if __name__ == "__main__":
    unittest.main()
