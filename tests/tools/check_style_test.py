"""tools/check_style finds breaches of the rules, and only those."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_style"


def run_on(name: str, text: str) -> tuple[int, str]:
    """Exit code and output for a repository with one file that git would take up."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        file = Path(folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        (Path(folder) / ".clang-format").write_text("BasedOnStyle: Google\nColumnLimit: 100\n")
        result = subprocess.run(
            [sys.executable, str(TOOL), "--root", folder], capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout + result.stderr


class CheckStyleTest(unittest.TestCase):
    """One bad line each, beside a good twin."""

    def assert_good(self, name: str, text: str) -> None:
        """No breach."""
        self.assertEqual(run_on(name, text), (0, "style: good\n"))

    def assert_bad(self, message: str, name: str, text: str) -> None:
        """A breach that is named."""
        code, output = run_on(name, text)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_format(self) -> None:
        """clang-format is asked."""
        self.assert_good("src/engine/a.cpp", "int a = 1;\n")
        self.assert_bad("src/engine/a.cpp: not formatted", "src/engine/a.cpp", "int  a=1;\n")

    def test_conditional_compilation(self) -> None:
        """Allowed in base and kernels only."""
        text = "#if defined(X)\n#endif\n"
        self.assert_good("src/base/a.cpp", text)
        self.assert_good("src/kernels/isa/a.cpp", text)
        self.assert_bad("src/engine/a.cpp:1: conditional compilation", "src/engine/a.cpp", text)

    def test_library_neither_ends_nor_prints(self) -> None:
        """Calls count, words and methods of the same name do not."""
        self.assert_bad("the library ends the process", "src/engine/a.cpp", "void f() { std::abort(); }\n")
        self.assert_bad("the library ends the process", "src/engine/a.cpp", "void f() { exit(1); }\n")
        self.assert_bad("the library prints", "src/engine/a.cpp", 'void f() { printf("x"); }\n')
        self.assert_good("src/engine/a.cpp", "Status abort(int id);\nvoid f(S s) { s.abort(1); }  // not exit(1)\n")
        self.assert_good("src/engine/a_test.cpp", "void f() { std::abort(); }\n")
        self.assert_good("src/cli/a.cpp", "void f() { std::exit(1); }\n")

    def test_unfinished_marks(self) -> None:
        """In code of every language."""
        self.assert_bad("unfinished mark", "tools/a.py", "x = 1  # TODO more\n")
        self.assert_good("tools/a.py", "todo = 1\n")

    def test_machine_paths(self) -> None:
        """Absolute paths of somebody's machine, not web addresses or relative ones."""
        self.assert_bad("absolute machine path", "README.md", "see /home/me/models\n")
        self.assert_bad("absolute machine path", "docs/a.md", "`/work/x`\n")
        self.assert_good("README.md", "see https://example.org/home/page and src/work/x and ~/models\n")

    def test_links_out(self) -> None:
        """Nothing points outside the repository."""
        self.assert_bad("link out of the repository", "README.md", "see ../shared/design.md\n")
        self.assert_good("README.md", "in shared memory\n")


if __name__ == "__main__":
    unittest.main()
