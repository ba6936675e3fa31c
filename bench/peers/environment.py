"""An environment of its own for each peer, in a folder that git ignores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

STAMP = "installed.txt"


class PeerError(Exception):
    """Why a peer could not be installed or run; its text is the whole message."""


def run_logged(command: list[str], log: Path, cwd: Path | None = None, lasts: str = "") -> None:
    """Runs a command with low priority, its output in `log`.

    Raises:
        PeerError: it failed; the message has the last lines.
    """
    print(f"  {Path(command[0]).name} {' '.join(command[1:3])} ...{f' ({lasts})' if lasts else ''}", flush=True)
    with log.open("a") as file:
        nice = ["nice", "-n", "19"] if shutil.which("nice") else []
        done = subprocess.run(
            [*nice, *command], stdout=file, stderr=subprocess.STDOUT, cwd=cwd, check=False, stdin=subprocess.DEVNULL
        )
    if done.returncode != 0:
        tail = " | ".join(log.read_text(errors="replace").splitlines()[-3:])
        raise PeerError(f"{Path(command[0]).name} failed ({done.returncode}), see {log}: {tail}")


class Environment:
    """A virtual environment that is made once and known by what went into it."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self.folder = folder
        self.recipe = recipe

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.folder / "bin" / "python"

    @property
    def log(self) -> Path:
        """What the installation printed."""
        return self.folder / "install.log"

    def complete(self) -> bool:
        """Whether everything that the recipe names is there."""
        stamp = self.folder / STAMP
        return stamp.is_file() and stamp.read_text() == self.recipe

    def begin(self) -> None:
        """Makes the environment anew, empty.

        Raises:
            PeerError: there is no room, or Python has no venv.
        """
        if self.folder.is_dir():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        run_logged([sys.executable, "-m", "venv", str(self.folder)], self.log)

    def pip(self, *arguments: str, lasts: str = "") -> None:
        """Runs pip in the environment; PeerError where that fails."""
        run_logged([str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments], self.log, lasts=lasts)

    def finish(self) -> None:
        """Notes that everything is there."""
        (self.folder / STAMP).write_text(self.recipe)


def threads_environment(threads: int, **more: str) -> dict[str, str]:
    """Variables for a process that computes on `threads` threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), **more}
