"""tools/check_isa_symbols sees inline functions that leave an object of one instruction set."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_isa_symbols"


def run_on(source: str | None) -> tuple[int, str]:
    """Exit code and output for a build folder with this one object of isa/avx2.cpp, or none."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "isa" / "avx2.cpp.o"
        target.parent.mkdir()
        if source is not None:
            command = ["g++", "-O0", "-c", "-x", "c++", "-", "-o", str(target)]
            subprocess.run(command, input=source, text=True, check=True)
        result = subprocess.run([sys.executable, str(TOOL), folder], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr


class CheckIsaSymbolsTest(unittest.TestCase):
    """Objects made by the compiler."""

    def test_own_namespace_and_hidden_functions_pass(self) -> None:
        """Weak, strong and internal symbols."""
        source = (
            "static int hidden() { return 1; }\n"
            "namespace k::avx2 { inline int weak() { return hidden(); } int strong() { return weak(); } }\n"
            "namespace { int inside() { return k::avx2::weak(); } }\n"
            "namespace k::avx2 { template <typename T> T of(T x) { return x + inside(); } template int of(int); }\n"
        )
        code, output = run_on(source)
        self.assertEqual((code, output), (0, "isa symbols: good in 1 objects\n"))

    def test_shared_inline_function_fails(self) -> None:
        """The trap itself."""
        source = (
            "namespace k { inline float twice(float x) { return 2 * x; } }\n"
            "namespace k::avx2 { float f(float x) { return twice(x); } }\n"
        )
        code, output = run_on(source)
        self.assertEqual(code, 1)
        self.assertIn("W k::twice(float)", output)

    def test_types_of_the_namespace_make_a_name_unique(self) -> None:
        """A shared template over this instruction set's vector cannot be taken for another's."""
        source = (
            "namespace k { template <typename V> int f(V) { return 1; } }\n"
            "namespace k::avx2 { struct V {}; int g() { return f(V{}); } }\n"
        )
        self.assertEqual(run_on(source)[0], 0)
        code, output = run_on(source.replace("f(V{})", "f(1.0f)"))
        self.assertEqual(code, 1)
        self.assertIn("int k::f<float>(float)", output)

    def test_no_objects(self) -> None:
        """Nothing looked at is no success."""
        self.assertEqual(run_on(None)[0], 1)


if __name__ == "__main__":
    unittest.main()
