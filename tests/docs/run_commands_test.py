"""Tests of run_commands.py on pages made up here."""

from __future__ import annotations

import io
import subprocess
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

import run_commands
from markdown_blocks import find_blocks

GOOD = "# Page\n\n```sh\necho one > made.txt\n```\n\n1. A step:\n\n   ```bash\n   cat made.txt\n   ```\n"


class Runner(unittest.TestCase):
    """A repository with the pages of one test."""

    def setUp(self) -> None:
        """Makes the repository."""
        holder = tempfile.TemporaryDirectory(prefix="rlgen-docs-")
        self.addCleanup(holder.cleanup)
        self.root = Path(holder.name)
        (self.root / "docs").mkdir()
        (self.root / ".gitignore").write_text("/build/\n")
        subprocess.run(["git", "-C", str(self.root), "init", "-q"], check=True)

    def run_pages(self, *options: str, **pages: str) -> tuple[int, str]:
        """Writes the pages (README, or a name in docs) and runs their blocks."""
        for name, text in pages.items():
            path = self.root / "README.md" if name == "README" else self.root / "docs" / f"{name}.md"
            path.write_text(text)
        output = io.StringIO()
        with redirect_stdout(output):
            code = run_commands.main(["--root", str(self.root), *options])
        return code, output.getvalue()

    def test_good_blocks_run_in_order_in_a_copy(self) -> None:
        """The second block sees what the first wrote; the repository does not."""
        code, output = self.run_pages(README=GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("2 blocks, 0 failed, 0 not run", output)
        self.assertFalse((self.root / "made.txt").exists())
        self.assertEqual((self.root / "build/docs/copy/made.txt").read_text(), "one\n")

    def test_a_failing_block_fails(self) -> None:
        """Whatever line of it fails, and whatever runs after it; its output is shown."""
        for body in ("echo before\nexit 3\n", "false\ntrue\n", "false | true\n", "echo $UNSET_NAME\n"):
            with self.subTest(body=body):
                code, output = self.run_pages(README=GOOD, more=f"```sh\n{body}```\n", next="```sh\ntrue\n```\n")
                self.assertEqual(code, 1)
                self.assertIn("4 blocks, 1 failed, 0 not run", output)
                self.assertIn("FAILED   docs/more.md:1", output)
        code, output = self.run_pages(more="```sh\necho seen; exit 3\n```\n")
        self.assertIn("exit code 3", output)
        self.assertIn("| seen", output)

    def test_a_block_that_hangs_fails(self) -> None:
        """After the time for one block."""
        code, output = self.run_pages("--timeout", "0.2", README="```sh\nexec sleep 30\n```\n")
        self.assertEqual(code, 1)
        self.assertIn("not finished after 0.2 s", output)

    def test_the_copy_follows_the_tree(self) -> None:
        """Files that are gone go, what earlier blocks wrote goes, what was built stays."""
        (self.root / "old.txt").write_text("old")
        self.run_pages(
            README="```sh\ncat old.txt\ntouch left.txt\nmkdir -p build out\ntouch build/kept out/file\n```\n"
        )
        (self.root / "old.txt").unlink()
        code, output = self.run_pages(
            README="```sh\ntest ! -e old.txt -a ! -e left.txt -a ! -e out -a -e build/kept\n```\n"
        )
        self.assertEqual(code, 0, output)

    def test_marked_blocks_are_counted(self) -> None:
        """They do not run, and their reason is printed."""
        code, output = self.run_pages(README="<!-- not run: clones from afar -->\n```sh\nexit 1\n```\n")
        self.assertEqual(code, 0, output)
        self.assertIn("0 blocks, 0 failed, 1 not run", output)
        self.assertIn("clones from afar", output)

    def test_list_runs_nothing(self) -> None:
        """It checks the marks all the same."""
        self.assertEqual(self.run_pages("--list", README="```sh\nexit 1\n```\n")[0], 0)
        self.assertEqual(self.run_pages("--list", README="```\nexit 1\n```\n")[0], 1)
        self.assertFalse((self.root / "build").exists())


class Blocks(unittest.TestCase):
    """What counts as a block, and what is a fault."""

    def faults(self, text: str) -> list[str]:
        """The faults of a page."""
        return find_blocks("page", text)[1]

    def test_languages_and_indentation(self) -> None:
        """Other languages are found too; the fence's indentation goes."""
        blocks, faults = find_blocks("page", GOOD + "\n```cpp\nint x;\n    int y;\n```\n~~~text\n```\n~~~\n")
        self.assertEqual(faults, [])
        self.assertEqual([block.language for block in blocks], ["sh", "bash", "cpp", "text"])
        self.assertEqual(blocks[1].code, "cat made.txt\n")
        self.assertEqual(blocks[2].code, "int x;\n    int y;\n")
        self.assertEqual(blocks[1].place, "page:9")

    def test_faults(self) -> None:
        """Each is named with its line."""
        for text, fault in (
            ("```\nmake\n```\n", "page:1: no language"),
            ("text\n\n```sh\nmake\n", "page:3: the block has no end"),
            ("Do this:\n\n    make\n", "page:3: indented code block"),
            ("1. Do this:\n\n       make\n", "page:3: indented code block"),
            ("<!-- not run: why -->\ntext\n", "page:1: 'not run' stands above no block"),
            ("<!-- not run: why -->\n", "page:1: 'not run' stands above no block"),
            ("<!-- not run: why -->\n```cpp\nint x;\n```\n", "page:2: 'not run' stands above a block that is no shell"),
        ):
            with self.subTest(text=text):
                found = self.faults(text)
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(fault), found[0])

    def test_list_text_is_no_code(self) -> None:
        """Paragraphs and nested items of a list are indented too."""
        self.assertEqual(self.faults("1. One\n\n    more of it\n\n    - nested\n"), [])
        self.assertEqual(self.faults("text\n    continued\n"), [])

    def test_a_mark_needs_a_reason(self) -> None:
        """Without one the block runs."""
        blocks, _ = find_blocks("page", "<!-- not run: -->\n```sh\nexit 1\n```\n")
        self.assertEqual(blocks[0].reason, "")


if __name__ == "__main__":
    unittest.main()
