"""tools/check_layers finds what it is there to find, in trees made for it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_layers"
HEADING = "| level | module | may include | outside libraries | what it is |\n|---|---|---|---|---|\n"
ROWS = (
    "| 0 | `base` | none | xxhash | x |\n"
    "| 1 | `text` | base | json | x |\n"
    "| 2 | `engine` | base | none | x |\n"
    "| 2 | `refit` | base | none | x |\n"
    "| 3 | `backends` | base | none | x |\n"
    "| 3 | `backends/local` | base, text, engine, refit | none | x |\n"
    "| 4 | `generation` | base, backends | none | x |\n"
    "| 4 | `generation/text_session` | base, text | none | x |\n"
)


class CheckLayersTest(unittest.TestCase):
    """Each case writes a table and a few files and looks at what the tool says."""

    def run_on(self, files: dict[str, str], rows: str = ROWS) -> tuple[int, str]:
        """Exit code and output for a tree with these files under src/."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {
                "docs/structure.md": HEADING + rows,
                **{f"src/{k}": v for k, v in files.items()},
            }.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            (root / "src").mkdir(exist_ok=True)
            result = subprocess.run(
                [sys.executable, str(TOOL), "--root", folder], capture_output=True, text=True, check=False
            )
            return result.returncode, result.stdout + result.stderr

    def assert_good(self, files: dict[str, str]) -> None:
        """The tree passes."""
        code, output = self.run_on(files)
        self.assertEqual((code, output), (0, "layers: good\n"))

    def assert_bad(self, message: str, files: dict[str, str], rows: str = ROWS) -> None:
        """The tree fails with `message` among the output."""
        code, output = self.run_on(files, rows)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_down_is_allowed(self) -> None:
        """Listed modules, the own one, standard headers and free libraries."""
        text = '#include <vector>\n#include <absl/x.h>\n#include "base/a.h"\n#include "engine/b.h"\n'
        self.assert_good({"engine/a.cpp": text})

    def test_up_fails(self) -> None:
        """A lower module that includes a higher one."""
        self.assert_bad("base may not include engine", {"base/a.h": '#include "engine/b.h"\n'})

    def test_sibling_fails(self) -> None:
        """Two modules of one level."""
        self.assert_bad("engine may not include refit", {"engine/a.cpp": '#include "refit/b.h"\n'})

    def test_spaces_do_not_hide_an_include(self) -> None:
        """Every spelling that the compiler takes."""
        self.assert_bad("engine may not include refit", {"engine/a.cpp": '  #  include "refit/b.h"\n'})

    def test_down_but_not_listed_fails(self) -> None:
        """The row decides, not only the level."""
        self.assert_bad("engine may not include text", {"engine/a.cpp": '#include "text/b.h"\n'})

    def test_unit_test_obeys_its_folder(self) -> None:
        """No exception for *_test.cpp."""
        self.assert_bad("engine may not include text", {"engine/a_test.cpp": '#include "text/b.h"\n'})

    def test_folder_row(self) -> None:
        """Only backends/local may include the engine, and nobody above may include it."""
        engine = '#include "engine/a.h"\n'
        self.assert_good({"backends/local/a.cpp": engine, "backends/make.cpp": '#include "backends/local/a.h"\n'})
        self.assert_bad("backends may not include engine", {"backends/make.cpp": engine})
        inner = {"generation/a.cpp": '#include "backends/local/a.h"\n'}
        self.assert_bad("generation may not include backends/local", inner)

    def test_file_row(self) -> None:
        """Only text_session joins text and ids; its unit test is part of it."""
        text = '#include "text/a.h"\n'
        self.assert_good({"generation/text_session.cpp": text, "generation/text_session_test.cpp": text})
        self.assert_bad("generation may not include text", {"generation/text_sessions.cpp": text})

    def test_outside_library(self) -> None:
        """A library is for the rows that list it."""
        json = "#include <nlohmann/json.hpp>\n"
        self.assert_good({"text/a.cpp": json})
        self.assert_bad("engine may not use json", {"engine/a.cpp": json})

    def test_unknown_module(self) -> None:
        """Files and includes outside the table."""
        self.assert_bad("src/misc/a.cpp belongs to no module", {"misc/a.cpp": ""})
        self.assert_bad('"misc/a.h" belongs to no module', {"engine/a.cpp": '#include "misc/a.h"\n'})
        self.assert_bad("not written from src/ on", {"engine/a.cpp": '#include "b.h"\n'})

    def test_cycle_of_files(self) -> None:
        """Inside one module too."""
        files = {
            "base/a.h": '#include "base/b.h"\n',
            "base/b.h": '#include "base/c.h"\n',
            "base/c.h": '#include "base/a.h"\n',
        }
        self.assert_bad("cycle of files: base/a.h -> base/b.h -> base/c.h -> base/a.h", files)

    def test_cycle_of_modules(self) -> None:
        """A table that allows it does not make it right."""
        rows = "| 0 | `a` | b | none | x |\n| 1 | `b` | a | none | x |\n"
        files = {"a/x.h": '#include "b/y.h"\n', "b/z.h": '#include "a/w.h"\n'}
        self.assert_bad("cycle of modules: a -> b -> a", files, rows)
        self.assert_bad("a (level 0) may not include b (level 1)", files, rows)

    def test_bad_table(self) -> None:
        """Rows that cannot be right, and no rows at all."""
        self.assert_bad("no module table found", {}, "")
        self.assert_bad(
            "may not include b (level 1)", {}, "| 1 | `a` | b | none | x |\n| 1 | `b` | none | none | x |\n"
        )
        self.assert_bad("may include c, which has no row", {}, "| 1 | `a` | c | none | x |\n")
        self.assert_bad("soup is no library", {}, "| 1 | `a` | none | soup | x |\n")


if __name__ == "__main__":
    unittest.main()
