#!/usr/bin/env python3
"""Writes docs/contract_table.md: every name of the contract beside what Python and C++ have.

With --check it writes nothing and fails where the page is not what it would write.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from cpp_side import compare_headers
from facts import ROOT, load_facts
from python_side import compare_module

PAGE = ROOT / "docs" / "contract_table.md"
HEAD = """# The contract, name by name

Written by `tests/contract/make_table.py` from `tests/contract/facts.json`. A test fails where a name, a kind,
a parameter, a type or a default differs, in Python or in C++. What the names mean stands in
[contract.md](contract.md).

"same" means the same kind, parameters, types and defaults; the last column is the name in C++.
"""


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def mark(name: str, problems: list[str]) -> str:
    """The word same, or what differs."""
    own = [problem for problem in problems if problem.startswith((f"{name}:", f"{name} "))]
    return "; ".join(own) if own else "same"


def cpp_name(entry: dict[str, Any], owner: str = "") -> str:
    """The name in C++, or why there is none."""
    name = entry.get("cpp", entry["name"])
    if name is None:
        return "checked when read, not kept"
    return cell(f"{owner}::{name}" if owner else name)


def row(name: str, what: str, python: str, cpp: str) -> str:
    """One line of a table."""
    return f"| {cell(name)} | {cell(what)} | {python} | {cpp} |"


def class_rows(cls: dict[str, Any], problems: list[str]) -> list[str]:
    """The lines of a class."""
    where = f"A {cls['kind']}; Python: {mark(cls['name'], problems)}; C++: `{cls['header']}`."
    lines = [f"### `{cls['name']}`", "", where]
    lines += ["", "| name | as agreed | Python | C++ |", "|---|---|---|---|"]
    for field in cls["fields"]:
        what = field["type"] + (f" = {field['default']}" if "default" in field else "")
        cpp = "any other column" if field["name"] == "__extra__" else cpp_name(field)
        lines.append(row(field["name"], what, mark(f"{cls['name']}.{field['name']}", problems), cpp))
    for member in cls["members"]:
        words = [member["kind"]] if member["kind"] != "method" else []
        words += ["abstract"] if member["abstract"] else []
        what = f"{' '.join(words)} {member['signature']}".strip()
        lines.append(row(member["name"], what, mark(f"{cls['name']}.{member['name']}", problems), cpp_name(member)))
    return [*lines, ""]


def page_text(facts: dict[str, Any], module: Any | None) -> str:
    """The whole page."""
    problems = [] if module is None else compare_module(facts, module)
    lines = [HEAD, "## Constants", "", "| name | value | Python | C++ |", "|---|---|---|---|"]
    for constant in facts["constants"]:
        lines.append(row(constant["name"], constant["value"], mark(constant["name"], problems), cpp_name(constant)))
    lines += ["", "## Functions", "", "| name | as agreed | Python | C++ |", "|---|---|---|---|"]
    for function in facts["functions"]:
        lines.append(row(function["name"], function["signature"], mark(function["name"], problems), cpp_name(function)))
    lines += ["", "## Classes", ""]
    for cls in facts["classes"]:
        lines += class_rows(cls, problems)
    text = "\n".join(lines).rstrip() + "\n"
    if module is not None:
        return text
    return text.replace("| same |", "| not built |").replace("Python: same", "Python: not built")


def main() -> int:
    """Writes or checks the page; 1 when it is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", help="the Python module, by its dotted name")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    facts = load_facts()
    for problem in compare_headers(facts, ROOT):
        print(problem)
        return 1
    text = page_text(facts, importlib.import_module(arguments.module) if arguments.module else None)
    if not arguments.check:
        arguments.page.write_text(text, encoding="utf-8")
        return 0
    if arguments.page.is_file() and arguments.page.read_text(encoding="utf-8") == text:
        print("contract table: good")
        return 0
    print(f"{arguments.page} is not what the code says; run tests/contract/make_table.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
