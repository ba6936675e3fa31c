#!/usr/bin/env python3
"""Fails where the names that a trainer relies on differ from facts.json, in Python or in C++.

Compared are constants, functions, classes, fields, members, kinds, parameters, types and defaults.
Without the Python module (--module) only C++ is compared.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from cpp_side import compare_headers
from facts import ROOT, load_facts
from python_side import compare_module


def main() -> int:
    """Prints the differences; 1 when there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--module", action="append", default=[], help="a module to compare, by its dotted name")
    arguments = parser.parse_args()
    facts = load_facts()
    problems = compare_headers(facts, arguments.root)
    for name in arguments.module:
        problems += [f"{name}: {problem}" for problem in compare_module(facts, importlib.import_module(name))]
    for problem in problems:
        print(problem)
    print(f"contract: {len(problems)} differences" if problems else "contract: good")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
