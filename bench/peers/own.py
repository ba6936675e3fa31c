"""rlgen itself, through `rlgen bench`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from peers.environment import PeerError
from peers.peer import Setting
from peers.work import Timing, Work

RUN_SECONDS = 1800
# The profiles, and the arithmetic of the peers that each is compared with.
ARITHMETIC = {"float32": "float32", "bfloat16": "bfloat16", "bfloat16_amx": "bfloat16"}
AMX_FLAGS = frozenset({"amx_tile", "amx_bf16", "avx512_bf16"})


def profiles_for(cpuinfo: str) -> list[str]:
    """The profiles to measure on a machine; that of AMX where its processor has the instruction.

    Elsewhere it gives the same bits with multiply-adds, and `bfloat16` is the profile to choose.

    Args:
        cpuinfo: what /proc/cpuinfo says.
    """
    flags = {
        flag
        for line in cpuinfo.splitlines()
        if line.partition(":")[0].strip() == "flags"
        for flag in line.partition(":")[2].split()
    }
    return [profile for profile in ARITHMETIC if profile != "bfloat16_amx" or flags >= AMX_FLAGS]


class Rlgen:
    """One arithmetic profile; each run is a process of its own, which measures the limits beside the row.

    It draws every token and gives its log-probability; the peers take the largest logit at most.
    """

    def __init__(self, setting: Setting, profile: str = "float32") -> None:
        self.name = f"rlgen {profile}"
        self.arithmetic = ARITHMETIC[profile]
        self._profile = profile
        self._setting = setting
        self.machine: dict[str, Any] | None = None  # as the newest run describes it

    def install(self) -> None:
        """Nothing: `make build` makes the command."""

    def start(self) -> None:
        """Looks whether the command was built."""
        if not self._setting.rlgen.is_file():
            raise PeerError(f"{self._setting.rlgen} is missing; run 'make build'")

    def run(self, work: Work, seed: int) -> Timing:
        """Runs a row twice in one process and takes the better one, as `rlgen bench` does.

        The first run meets memory that nobody has touched; the other engines stay loaded and have that behind them.
        """
        del seed
        with tempfile.TemporaryDirectory(prefix="rlgen-bench-") as folder:
            path = Path(folder) / "report.json"
            command = [
                *(str(self._setting.rlgen), "bench", "--model", str(self._setting.model)),
                *("--threads", str(self._setting.threads), "--rows", work.name, "--repeats", "2"),
                *("--activation-dtype", self._profile),
                *("--prefill-tokens", str(work.prompt), "--no-enable-prefix-caching", "--json", str(path)),
                *(() if work.is_prefill else ("--decode-tokens", str(work.new))),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
            if done.returncode != 0:
                raise PeerError(f"rlgen bench ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            report = json.loads(path.read_text())
        self.machine = report["machine"]
        return read_timing(report, work)

    def stop(self) -> None:
        """Nothing is kept."""


def read_timing(report: dict[str, Any], work: Work) -> Timing:
    """The timing of the row in a report of `rlgen bench`.

    Raises:
        PeerError: the row was left out.
    """
    (row,) = (row for row in report["rows"] if row["row"] == work.name)
    if "skipped" in row:
        raise PeerError(row["skipped"])
    if work.is_prefill:
        seconds = work.batch * work.prompt / row["value"]
        return Timing(seconds, None, seconds, row.get("fraction"))
    whole = work.batch * work.new / row["details"]["whole_tokens_per_second"]
    decode = work.batch * (work.new - 1) / row["value"]
    return Timing(None, decode, whole, row.get("fraction"))
