#!/usr/bin/env python3
"""Makes the byte-level test tokenizer: tokenizer.json and its two companions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from models.test_tokenizer import write_test_tokenizer

ROOT = Path(__file__).resolve().parent.parent


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "tests" / "fixtures" / "tokenizers" / "byte_level"
    parser.add_argument("--output", type=Path, default=default, help="folder to write to")
    return parser.parse_args(argv)


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    write_test_tokenizer(arguments.output)
    print(arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
