"""tools/setup says what it could not do, and is silent when there is nothing to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "setup"
REAL = ("bash", "env", "dirname", "sort", "head", "sed", "tr", "cut", "cmp", "cp")


class SetupTest(unittest.TestCase):
    """The tool runs in a folder of its own, with a PATH that holds fakes of what it calls."""

    def setUp(self) -> None:
        """A copy of the tool, the plain commands, and a machine where all is installed."""
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        (self.root / "tools").mkdir()
        shutil.copy(TOOL, self.root / "tools" / "setup")
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name) or self.fail(name))
        self.fake("cargo", "echo cargo 1.85.0")
        self.fake("python3", "echo 3.11")
        self.fake("id", "echo 1000")
        self.fake("dpkg-query", 'shift 2; for p in "$@"; do [ "$p" = "$LACKING" ] || echo "ii $p"; done')

    def fake(self, name: str, body: str) -> None:
        """A command of that name that runs `body`."""
        file = self.bin / name
        file.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        file.chmod(0o755)

    def run_setup(self, lacking: str = "", *arguments: str) -> tuple[int, str]:
        """Exit code and output; the Debian package `lacking` is not installed."""
        environment = {"PATH": str(self.bin), "HOME": str(self.root), "LACKING": lacking}
        command = [shutil.which("bash") or "bash", str(self.root / "tools" / "setup"), *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def test_nothing_to_do(self) -> None:
        """Silence and success."""
        self.assertEqual(self.run_setup(), (0, ""))

    def test_missing_package_without_root(self) -> None:
        """The command that an administrator has to run is named."""
        code, output = self.run_setup("mold")
        self.assertEqual(code, 1)
        self.assertIn("not root and no sudo; run as root: apt-get install mold\n", output)

    def test_slow_packages(self) -> None:
        """Only with --slow; any other argument is refused."""
        self.assertEqual(self.run_setup("qemu-user-static"), (0, ""))
        code, output = self.run_setup("qemu-user-static", "--slow")
        self.assertEqual(code, 1)
        self.assertIn("apt-get install qemu-user-static", output)
        self.assertEqual(self.run_setup("", "--fast")[0], 2)

    def test_missing_package_with_sudo(self) -> None:
        """apt-get is called with the missing package alone; its failure is told."""
        self.fake("sudo", '"$@"')
        self.fake("apt-get", 'echo "$*" >>calls; [ "$FAIL" != "$1" ]')
        self.assertEqual(self.run_setup("mold")[0], 0)
        calls = (self.root / "calls").read_text().splitlines()
        self.assertEqual(calls, ["update -q", "install -y -q --no-install-recommends mold"])
        self.fake("apt-get", '[ "$1" = update ]')
        code, output = self.run_setup("mold")
        self.assertEqual(code, 1)
        self.assertIn("'apt-get install mold' failed", output)

    def test_old_cargo(self) -> None:
        """Debian's newer packages are asked for, and what was found is told."""
        self.fake("cargo", "echo cargo 1.63.0")
        code, output = self.run_setup("cargo-web")
        self.assertEqual(code, 1)
        self.assertIn("cargo-web", output)
        self.assertIn("cargo 1.85 or newer is needed, found: cargo 1.63.0", output)

    def test_python_packages(self) -> None:
        """Installed once, and again when the list changes; a failure is told and tried again."""
        (self.root / "tools" / "requirements.txt").write_text("numpy==1\n")
        (self.root / ".venv" / "bin").mkdir(parents=True)
        pip = self.root / ".venv" / "bin" / "pip"
        pip.symlink_to(self.bin / "pip")
        self.fake("pip", "exit 1")
        code, output = self.run_setup()
        self.assertEqual(code, 1)
        self.assertIn("is the package index reachable?", output)
        self.fake("pip", "exit 0")
        self.assertEqual(self.run_setup()[0], 0)
        self.fake("pip", "exit 1")
        self.assertEqual(self.run_setup(), (0, ""))
        (self.root / "tools" / "requirements.txt").write_text("numpy==2\n")
        self.assertEqual(self.run_setup()[0], 1)

    def test_other_system(self) -> None:
        """Without dpkg the list is printed and the rest still happens."""
        os.remove(self.bin / "dpkg-query")
        code, output = self.run_setup()
        self.assertEqual(code, 1)
        self.assertIn("this is no Debian system", output)


if __name__ == "__main__":
    unittest.main()
