#!/usr/bin/env python3
"""Writes the parity fixtures: log-probabilities and greedy tokens of Hugging Face Transformers.

Runs in the environment of tools/requirements-parity.txt. With --check nothing is written: the
stored numbers are compared with a new run. The schema is in docs/fixtures.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

from cases import CASES, FIXTURES, Case
from transformers_model import Reference

SCHEMA = 1
SMALLEST_MARGIN = 2e-3
CHECK_TOLERANCE = 2e-5


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"cases: {', '.join(CASES)} (default: all)")
    parser.add_argument("--output", type=Path, default=FIXTURES, help="folder of the fixture files")
    parser.add_argument("--check", action="store_true", help="compare with the stored files, write nothing")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in CASES]
    if unknown:
        parser.error(f"unknown case {', '.join(unknown)}")
    return arguments


def random_ids(name: str, attempt: int, length: int, limit: int) -> list[int]:
    """`length` token ids below `limit`, fixed by the other arguments."""
    generator = np.random.default_rng([zlib.crc32(name.encode()), attempt])
    return [int(i) for i in generator.integers(0, limit, length)]


def measure(reference: Reference, case: Case, token_ids: list[int], prompt_len: int) -> dict[str, Any]:
    """One entry of "sequences"."""
    greedy, margin = reference.greedy(token_ids[:prompt_len], case.greedy_len)
    return {
        "token_ids": token_ids,
        "logprobs": reference.logprobs(token_ids),
        "greedy_prompt_len": prompt_len,
        "greedy": greedy,
        "greedy_margin": margin,
    } | reference.routes(token_ids)


def random_sequences(name: str, case: Case, reference: Reference) -> list[dict[str, Any]]:
    """Sequences of random ids whose greedy choices are clear enough to be the same in any float32 code."""
    found: list[dict[str, Any]] = []
    limit = reference.masked_from or reference.vocab_size
    attempt = 0
    while len(found) < len(case.lengths):
        token_ids = random_ids(name, attempt, case.lengths[len(found)], limit)
        attempt += 1
        entry = measure(reference, case, token_ids, case.greedy_prompt_len)
        if entry["greedy_margin"] >= SMALLEST_MARGIN:
            found.append(entry)
        elif attempt == 40:
            raise RuntimeError(f"{name}: no prompt with clear greedy choices in {attempt} attempts")
    return found


def text_sequences(name: str, case: Case, reference: Reference) -> list[dict[str, Any]]:
    """Sequences made of the case's texts followed by their own greedy continuation."""
    tokenizer = Tokenizer.from_file(str(case.folder() / "tokenizer.json"))
    entries = []
    for text in case.texts:
        prompt = tokenizer.encode(text).ids
        entry = measure(reference, case, prompt, len(prompt))
        if entry["greedy_margin"] < SMALLEST_MARGIN:
            raise RuntimeError(f"{name}: greedy choices after {text[-40:]!r} lead by {entry['greedy_margin']} only")
        whole = prompt + entry["greedy"]
        of_whole = {"token_ids": whole, "logprobs": reference.logprobs(whole)} | reference.routes(whole)
        entries.append({"text": text} | entry | of_whole)
    return entries


def build(name: str, case: Case) -> dict[str, Any]:
    """The fixture of one case."""
    reference = Reference(case.folder(), case.max_model_len)
    sequences = text_sequences if case.texts else random_sequences
    return {
        "schema": SCHEMA,
        "checkpoint": case.checkpoint,
        "max_model_len": case.max_model_len,
        "masked_from": reference.masked_from,
        "reference": {
            "transformers": transformers.__version__,
            "torch": torch.__version__.split("+")[0],
            "dtype": "float32",
        },
        "sequences": sequences(name, case, reference),
    }


def to_text(fixture: dict[str, Any]) -> str:
    """JSON with one line per list of numbers."""
    text = json.dumps({**fixture, "sequences": []}, indent=2)
    entries = []
    for entry in fixture["sequences"]:
        lines = [f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items()]
        entries.append("    {\n" + ",\n".join(lines) + "\n    }")
    return text.replace('"sequences": []', '"sequences": [\n' + ",\n".join(entries) + "\n  ]") + "\n"


def find_differences(name: str, stored: dict[str, Any], fresh: dict[str, Any]) -> list[str]:
    """What a new run says differently, one sentence each."""
    faults = []
    for index, (old, new) in enumerate(zip(stored["sequences"], fresh["sequences"], strict=True)):
        if old["token_ids"] != new["token_ids"] or old["greedy"] != new["greedy"]:
            faults.append(f"{name}: sequence {index}: other tokens")
            continue
        if old.get("routes") != new.get("routes"):
            faults.append(f"{name}: sequence {index}: other experts")
        worst = float(np.max(np.abs(np.subtract(old["logprobs"], new["logprobs"]))))
        if worst > CHECK_TOLERANCE:
            faults.append(f"{name}: sequence {index}: log-probabilities differ by up to {worst:.2e}")
    return faults


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    faults: list[str] = []
    for name in arguments.names or CASES:
        path = arguments.output / f"{name}.json"
        fixture = build(name, CASES[name])
        if arguments.check:
            faults += find_differences(name, json.loads(path.read_text()), fixture)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(to_text(fixture))
        print(f"{name}: margin {min(entry['greedy_margin'] for entry in fixture['sequences'])}", flush=True)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
