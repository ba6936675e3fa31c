""".ci/run counts what passed and failed, and a lane that is too slow fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

CI = Path(__file__).resolve().parents[2] / ".ci"
ALL_PASSED = "echo '100% tests passed, 0 tests failed out of 10'"
ONE_FAILED = "echo '90% tests passed, 1 tests failed out of 10'; exit 8"


class CiRunTest(unittest.TestCase):
    """The lanes run in a folder where every command is a fake."""

    def setUp(self) -> None:
        """A tree in which everything passes."""
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name in ("layers", "size", "style", "options", "isa_symbols"):
            self.fake(f"tools/check_{name}", "true")
        self.fake("tools/setup", "true")
        self.fake(".ci/wheel", "true")
        self.fake(".ci/fuzz", "true")
        self.fake("bin/make", f'echo "digest a 1" >"$RLGEN_DIGEST_FILE"; {ALL_PASSED}')
        self.fake("bin/cmake", "true")
        self.fake(
            "bin/ctest", f'[ -z "${{RLGEN_DIGEST_FILE:-}}" ] || echo "digest a 1" >"$RLGEN_DIGEST_FILE"; {ALL_PASSED}'
        )
        shutil.copy(CI / "run", self.root / ".ci" / "run")
        shutil.copy(CI / "compare_digests", self.root / ".ci" / "compare_digests")

    def fake(self, name: str, body: str) -> None:
        """A command of the tree that runs `body`."""
        file = self.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def run_lanes(self, *lanes: str) -> tuple[int, list[str]]:
        """Exit code and lines of output."""
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        # The fakes write where it points, and outside that is the file of the run that tests this.
        environment.pop("RLGEN_DIGEST_FILE", None)
        command = [str(self.root / ".ci" / "run"), *lanes]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return result.returncode, (result.stdout + result.stderr).splitlines()

    def test_everything_passes(self) -> None:
        """Ten tests a lane, the other steps, and one for each budget that was kept."""
        code, lines = self.run_lanes()
        self.assertEqual(code, 0, lines)
        self.assertEqual(lines[-1], f"{(10 + 6 + 1) + (3 + 10 + 2 + 1) + (3 + 10 + 1)} passed, 0 failed")

    def test_a_failed_test_counts_once(self) -> None:
        """The rest of the lane still runs."""
        self.fake("bin/make", ONE_FAILED)
        code, lines = self.run_lanes("A")
        self.assertEqual((code, lines[-1]), (1, "16 passed, 1 failed"))
        self.assertTrue(any(line.startswith("ok    A  wheel") for line in lines))

    def test_a_failed_check_is_shown(self) -> None:
        """With its output."""
        self.fake("tools/check_layers", "echo engine may not include text; exit 1")
        code, lines = self.run_lanes("A")
        self.assertEqual((code, lines[-1]), (1, "16 passed, 1 failed"))
        self.assertIn("      engine may not include text", lines)

    def test_a_build_that_fails_ends_its_lane(self) -> None:
        """No tests of an old binary; other lanes still run."""
        self.fake("bin/cmake", '[ "$1" != --build ]')
        code, lines = self.run_lanes("B", "C")
        self.assertEqual(code, 1)
        self.assertFalse(any("  test  " in line for line in lines), lines)
        self.assertTrue(lines[-1].endswith("2 failed"), lines)

    def test_other_bits_fail(self) -> None:
        """Lane B computes something else than lane A, or nothing."""
        self.assertEqual(self.run_lanes("A")[0], 0)
        self.fake("bin/ctest", f'echo "digest a 2" >"$RLGEN_DIGEST_FILE"; {ALL_PASSED}')
        code, lines = self.run_lanes("B")
        self.assertEqual(code, 1)
        self.assertTrue(any("the builds computed different bits" in line for line in lines), lines)
        self.fake("bin/ctest", ALL_PASSED)
        code, lines = self.run_lanes("B")
        self.assertEqual(code, 1)
        self.assertTrue(any("no digests" in line for line in lines), lines)

    def test_a_slow_lane_fails(self) -> None:
        """With a budget of nothing."""
        script = self.root / ".ci" / "run"
        script.write_text(script.read_text().replace("[C]=7)", "[C]=0)"))
        self.fake("tools/setup", "sleep 1.1")
        code, lines = self.run_lanes("C")
        self.assertEqual(code, 1)
        self.assertIn("FAIL  C  over its budget", lines)

    def test_unknown_lane(self) -> None:
        """Refused before anything runs."""
        self.assertEqual(self.run_lanes("D")[0], 2)


if __name__ == "__main__":
    unittest.main()
