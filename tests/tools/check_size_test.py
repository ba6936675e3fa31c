"""tools/check_size counts files and functions."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_size"


def run_on(name: str, text: str) -> tuple[int, str]:
    """Exit code and output for a tree with one file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        result = subprocess.run(
            [sys.executable, str(TOOL), "--root", folder], capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout + result.stderr


class CheckSizeTest(unittest.TestCase):
    """Files of each kind on both sides of each limit."""

    def test_file_length(self) -> None:
        """800 lines pass with a warning, 801 do not, data folders do not count."""
        self.assertEqual(run_on("src/a/x.cpp", "\n" * 400), (0, "sizes: good\n"))
        code, output = run_on("src/a/x.cpp", "\n" * 800)
        self.assertEqual(code, 0)
        self.assertIn("warning: src/a/x.cpp: 800 lines", output)
        self.assertEqual(run_on("src/a/x.cpp", "\n" * 801)[0], 1)
        self.assertEqual(run_on("tests/fixtures/x.py", "\n" * 900)[0], 0)

    def test_cpp_function(self) -> None:
        """The function is found through namespaces and classes, past strings, comments and macros."""
        call = "  x();\n"
        head = 'namespace a {\nclass B {\n  // {{{ "\n#define OPEN {\n  const char* s = "}}}{";\n'
        function, end = "int f(int a,\n      int b) {\n", "}\n};\n}\n"
        self.assertEqual(run_on("src/a/x.cpp", head + function + call * 117 + end)[0], 0)
        code, output = run_on("src/a/x.cpp", head + function + call * 118 + end)
        self.assertEqual(code, 1)
        self.assertIn("src/a/x.cpp:6: a function of 121 lines", output)

    def test_blocks_inside_count_with_their_function(self) -> None:
        """A long loop makes the function long, once."""
        code, output = run_on("src/a/x.cpp", "void f() {\n  for (;;) {\n" + "    x();\n" * 130 + "  }\n}\n")
        self.assertEqual(code, 1)
        self.assertEqual(output.count("a function of"), 1)

    def test_data_is_no_function(self) -> None:
        """Tables and long classes."""
        self.assertEqual(run_on("src/a/x.cpp", "const int k[] = {\n" + "  1,\n" * 300 + "};\n")[0], 0)
        self.assertEqual(run_on("src/a/x.h", "struct X final : Y {\n" + "  int a;\n" * 300 + "};\n")[0], 0)

    def test_python_and_rust_functions(self) -> None:
        """The other languages."""
        self.assertEqual(run_on("tools/x.py", "def f():\n" + "    g()\n" * 119)[0], 0)
        self.assertEqual(run_on("tools/x.py", "def f():\n" + "    g()\n" * 120)[0], 1)
        self.assertEqual(run_on("rust/a/x.rs", "impl<'a> X<'a> {\nfn f() {\n" + "    g();\n" * 119 + "}\n}\n")[0], 1)
        self.assertEqual(run_on("rust/a/x.rs", "impl<'a> X<'a> {\nfn f() {\n" + "    g();\n" * 118 + "}\n}\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
