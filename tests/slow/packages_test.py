"""The packages that tools/setup installs are all that the build takes from a Debian system."""

from __future__ import annotations

import os
import shutil
import sys
import unittest
from pathlib import Path

import packages

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RLGEN_BUILD", ROOT / "build" / "release"))
SKIPPED = 77


class Packages(unittest.TestCase):
    """Looks at a finished build."""

    @classmethod
    def setUpClass(cls) -> None:
        """Finds out what the build took; the longest part."""
        cls.files = packages.taken_files(ROOT, BUILD)
        cls.names = [*packages.setup_list(ROOT, "packages", "cargo_packages"), "python3", "python3-venv"]

    def test_nothing_is_missing(self) -> None:
        """A bare machine gets every package that something was taken from."""
        print(f"{len(self.files)} files of the system, {len(self.names)} packages named", file=sys.stderr)
        self.assertEqual(packages.lacking(self.files, self.names), {})

    def test_the_slow_tests_lack_nothing(self) -> None:
        """Their scripts call commands of the packages that `tools/setup --slow` adds, and it is needed."""
        commands = packages.script_commands(ROOT, packages.SLOW_SCRIPTS)
        names = [*self.names, *packages.setup_list(ROOT, "slow_packages")]
        self.assertEqual(packages.lacking(commands, names), {})

    def test_a_missing_package_is_found(self) -> None:
        """A library without headers in others' names, a header-only one, a tool, a linker."""
        for name in (
            "nlohmann-json3-dev",
            "libcli11-dev",
            "libxxhash-dev",
            "ninja-build",
            "ccache",
            "librapidcheck-dev",
        ):
            with self.subTest(name=name):
                fewer = [other for other in self.names if other != name]
                self.assertIn(name, packages.lacking(self.files, fewer))

    def test_what_is_looked_at(self) -> None:
        """Headers, libraries and tools are among the files."""
        for part in ("nlohmann/json.hpp", "libfmt.so", "/ninja", "/git"):
            self.assertTrue(any(part in path for path in self.files), part)


if __name__ == "__main__":
    if shutil.which("dpkg-query") is None:
        print("skipped: this is no Debian system")
        sys.exit(SKIPPED)
    unittest.main()
