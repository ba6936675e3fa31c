#!/usr/bin/env python3
"""Makes the committed fixtures anew in a scratch folder and compares them byte by byte.

Covers the tiny and table checkpoints, the test tokenizer and the text goldens. The parity numbers
have their own check: tests/parity/reference.py --check.
"""

from __future__ import annotations

import argparse
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
MAKERS = {
    "make_tiny_checkpoint.py": "checkpoints",
    "make_table_checkpoint.py": "checkpoints",
    "make_test_tokenizer.py": "tokenizers/byte_level",
    "make_text_goldens.py": "text/tokenizers",
}


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    return parser.parse_args(argv)


def files_below(folder: Path) -> set[Path]:
    """Paths of all files below `folder`, relative to it."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def find_differences(made: Path, committed: Path) -> list[str]:
    """What differs between a freshly made folder and the committed one, one sentence each."""
    fresh, stored = files_below(made), files_below(committed)
    faults = [f"{committed / path}: no tool makes it" for path in sorted(stored - fresh)]
    faults += [f"{committed / path}: is not committed" for path in sorted(fresh - stored)]
    faults += [
        f"{committed / path}: differs from what the tool makes"
        for path in sorted(fresh & stored)
        if not filecmp.cmp(made / path, committed / path, shallow=False)
    ]
    return faults


def main() -> int:
    """Runs the check; returns the exit code."""
    parse_arguments()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rlgen-fixtures-") as scratch:
        for tool, folder in MAKERS.items():
            command = [sys.executable, str(ROOT / "tools" / tool), "--output", str(Path(scratch) / folder)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for folder in dict.fromkeys(MAKERS.values()):
            faults += find_differences(Path(scratch) / folder, FIXTURES / folder)
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
