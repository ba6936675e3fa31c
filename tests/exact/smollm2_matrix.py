#!/usr/bin/env python3
"""Equal bits on a real model: the demo model's rollouts in every surrounding that must not matter.

64 mixed prompts one by one, then as a batch on every instruction set of this machine, with one and
two threads and several step budgets, in a pool too small for them, in large blocks, with samples
that come apart, and scored, in all three modes of log-probabilities; of the profiles that round and of
other types of the cache in the first mode. Every output line has to be equal, key by key. The scalar
code is more than twenty times slower and takes the first lines only, as the output says. Exit code
77: the demo model is not here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from smollm2_prompts import Line, prompt_lines

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct"
TINY = ROOT / "tests" / "fixtures" / "checkpoints" / "llama_text"
ISAS = ("amx", "avx512_bf16", "avx512", "avx2", "neon", "scalar")
MODES = ("processed", "raw", "tempered")
# Profile, type of the cache and modes: lines are compared within each.
TYPES = (
    ("float32", "auto", MODES),
    ("bfloat16", "auto", MODES[:1]),
    ("bfloat16_amx", "auto", MODES[:1]),
    ("float32", "bfloat16", MODES[:1]),
    ("bfloat16", "float16", MODES[:1]),
)
CONTEXT = 384
BUDGETS = (512, 64, 7)
SKIPPED = 77

Lines = dict[tuple[str, int], Line]


class RunError(Exception):
    """A run of rlgen failed; the text says which and why."""


@dataclass(frozen=True)
class Surrounding:
    """What must not change a bit.

    Attributes:
        isa: instruction set.
        threads: threads.
        budget: --max-num-batched-tokens.
        at_once: --max-num-seqs.
        shared: whether prompts that begin alike share keys and values.
        block_size: keys of a block.
        pool: tokens of CONTEXT that the cache has room for, 0 for all that is needed.
    """

    isa: str
    threads: int = 1
    budget: int = 512
    at_once: int = 64
    shared: bool = True
    block_size: int = 16
    pool: int = 0

    def options(self, bytes_per_token: int) -> list[str]:
        """As options of rlgen, for a cache whose tokens take so many bytes."""
        named = {
            "--isa": self.isa,
            "--threads": self.threads,
            "--max-num-batched-tokens": self.budget,
            "--max-num-seqs": self.at_once,
            "--max-model-len": CONTEXT,
            "--block-size": self.block_size,
            "--kv-cache-memory-bytes": self.pool * bytes_per_token,
        }
        sharing = "--enable-prefix-caching" if self.shared else "--no-enable-prefix-caching"
        return [sharing, *(word for name, value in named.items() for word in (name, str(value)))]

    def __str__(self) -> str:
        company = "one by one" if self.at_once == 1 else f"{self.at_once} at once"
        sharing = "" if self.shared else ", nothing shared"
        blocks = "" if self.block_size == 16 else f", blocks of {self.block_size}"
        pool = "" if self.pool == 0 else f", room for {self.pool} tokens"
        threads = f"{self.threads} thread{'s'[: self.threads - 1]}"
        return f"{self.isa}, {threads}, budget {self.budget}, {company}{sharing}{blocks}{pool}"


@dataclass
class Matrix:
    """Runs and compares.

    Attributes:
        program: the rlgen binary.
        folder: where files go.
        faults: one sentence for each run that gave other lines.
        profile: --activation-dtype of the runs.
        kv_dtype: --kv-cache-dtype of the runs.
    """

    program: Path
    folder: Path
    profile: str = "float32"
    kv_dtype: str = "auto"
    faults: list[str] = field(default_factory=list)
    runs: int = 0

    def _types(self) -> list[str]:
        return ["--model", str(MODEL), "--activation-dtype", self.profile, "--kv-cache-dtype", self.kv_dtype]

    def bytes_per_token(self) -> int:
        """What a token takes in the cache of these types."""
        command = [str(self.program), "inspect", "--json", *self._types()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"inspect: exit code {done.returncode}: {done.stderr.strip()}")
        return int(json.loads(done.stdout)["kv_bytes_per_token"])

    def _run(self, verb: str, source: Path, where: Surrounding, mode: str, kept: Lines | None = None) -> Lines:
        self.runs += 1
        output = self.folder / f"{self.runs}.jsonl"
        if kept:
            output.write_text("".join(json.dumps(line) + "\n" for line in kept.values()), encoding="utf-8")
        given = "--prompts" if verb == "generate" else "--input"
        seed = ["--seed", "17"] if verb == "generate" else []
        command = [self.program, verb, *self._types(), given, source, "--output", output, "--logprobs-mode", mode]
        command += [*seed, *where.options(self.bytes_per_token()), *(["--resume"] if kept else [])]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()}")
        lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
        return {(line["id"], line["sample"]): line for line in lines}

    def generate(self, lines: list[Line], where: Surrounding, mode: str, kept: Lines | None = None) -> Lines:
        """Rolls the prompt lines out, but for what is kept of an earlier run."""
        source = self.folder / "prompts.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return self._run("generate", source, where, mode, kept)

    def score(self, rollouts: Lines, where: Surrounding, mode: str) -> Lines:
        """Scores rollouts, whose own values are taken away first."""
        source = self.folder / "rollouts.jsonl"
        bare = [{key: value for key, value in line.items() if key != "logprobs"} for line in rollouts.values()]
        source.write_text("".join(json.dumps(line) + "\n" for line in bare), encoding="utf-8")
        return self._run("score", source, where, mode)

    def expect(self, expected: Lines, found: Lines, title: str, start: float) -> None:
        """Prints a row, and keeps a fault where a line is missing, surplus or other."""
        keys = expected.keys() | found.keys()
        other = sorted(key for key in keys if expected.get(key) != found.get(key))
        row = f"{title:72} {len(keys) - len(other):3} of {len(keys):3} equal  {time.monotonic() - start:6.1f} s"
        print(row, flush=True)
        if other:
            a, b = expected.get(other[0]) or {}, found.get(other[0]) or {}
            names = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
            self.faults.append(f"{title}: {len(other)} lines differ, first {other[0]} in {', '.join(names)}")


def isas_here(program: Path) -> list[str]:
    """Instruction sets of this machine, the best first."""
    found = []
    for isa in ISAS:
        command = [program, "generate", "--model", TINY, "--prompt", "x", "--max-tokens", "1", "--isa", isa]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.append(isa)
        elif "isa" not in done.stderr:
            raise RunError(f"{isa}: {done.stderr.strip()}")
    if "scalar" not in found:
        raise RunError("the scalar code does not run")
    return found


def surroundings(isa: str, best: bool) -> list[Surrounding]:
    """The batches of one instruction set: all budgets on the best one, two on the others."""
    budgets = BUDGETS if best else BUDGETS[:2]
    batches = [Surrounding(isa, threads, budget) for threads in (1, 2) for budget in budgets]
    if best:
        batches += [
            Surrounding(isa, 2, 512, pool=CONTEXT),
            Surrounding(isa, 1, 64, pool=2 * CONTEXT),
            Surrounding(isa, 2, 200, block_size=48),
        ]
    return batches


def subset(lines: Lines, chosen: list[Line]) -> Lines:
    """The rollouts of the chosen prompts."""
    ids = {line["id"] for line in chosen}
    return {key: line for key, line in lines.items() if key[0] in ids}


def run_matrix(
    matrix: Matrix, isas: list[str], lines: list[Line], few: list[Line], modes: tuple[str, ...]
) -> None:
    """All runs of a profile and type of the cache; `few` are the lines that the scalar code takes."""
    print(f"profile {matrix.profile}, cache {matrix.kv_dtype}", flush=True)
    for mode in modes:
        start = time.monotonic()
        alone = Surrounding(isas[0], at_once=1, shared=False)
        expected = matrix.generate(lines, alone, mode)
        print(f"{mode}: {alone}: {len(expected)} rollouts  {time.monotonic() - start:.1f} s", flush=True)
        for isa in isas:
            chosen = few if isa == "scalar" and isa != isas[0] else lines
            wanted = subset(expected, chosen)
            batches = surroundings(isa, isa == isas[0]) if mode == MODES[0] else [Surrounding(isa, 2, 100)]
            if mode == MODES[0] and isa != isas[0]:
                batches.append(Surrounding(isa, at_once=1, shared=False))
            for where in batches:
                start = time.monotonic()
                matrix.expect(wanted, matrix.generate(chosen, where, mode), f"{mode}: {where}", start)
            if isa == isas[0]:
                start = time.monotonic()
                where = Surrounding(isa, 2, 100)
                kept = {key: line for key, line in wanted.items() if key[1] == 0 and key[0] != "line-0"}
                matrix.expect(wanted, matrix.generate(chosen, where, mode, kept), f"{mode}: apart: {where}", start)
            for where in (Surrounding(isa, 2, 200), Surrounding(isa, 1, 48, 1)):
                start = time.monotonic()
                matrix.expect(wanted, matrix.score(wanted, where, mode), f"{mode}: score: {where}", start)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rlgen", type=Path, default=ROOT / "build" / "release" / "bin" / "rlgen")
    parser.add_argument("--lines", type=int, default=64, help="prompt lines (default: 64)")
    parser.add_argument("--scalar-lines", type=int, default=3, help="prompt lines of the scalar code (default: 3)")
    return parser.parse_args()


def main() -> int:
    """Runs the matrix; returns the exit code."""
    arguments = parse_arguments()
    if not MODEL.is_dir():
        print(f"skipped: {MODEL} is not here; tools/fetch_demo_model.py makes it")
        return SKIPPED
    lines = prompt_lines()[: arguments.lines]
    few = lines[: arguments.scalar_lines]
    with tempfile.TemporaryDirectory(prefix="rlgen-matrix-") as folder:
        matrix = Matrix(arguments.rlgen, Path(folder))
        try:
            isas = isas_here(arguments.rlgen)
            print(
                f"{len(lines)} prompt lines on {', '.join(isas)}; scalar takes the first {len(few)}, since it is slow"
            )
            for matrix.profile, matrix.kv_dtype, modes in TYPES:
                run_matrix(matrix, isas, lines, few, modes)
        except RunError as error:
            matrix.faults.append(str(error))
    for fault in matrix.faults:
        print(fault, file=sys.stderr)
    print(f"{matrix.runs} runs, {len(matrix.faults)} faults")
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
