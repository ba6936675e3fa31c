"""Compares the table with the headers under src/contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def read_header(root: Path, header: str) -> str | None:
    """The declarations of a header without comments; None where there is no such file."""
    file = root / "src" / header
    return COMMENT.sub("", file.read_text(encoding="utf-8")) if file.is_file() else None


def body_of(text: str, name: str) -> str | None:
    """What stands between the braces of struct or class `name`."""
    match = re.search(rf"\b(?:struct|class)\s+{name}\b[^;{{]*\{{", text)
    if match is None:
        return None
    depth = 1
    for at in range(match.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[match.end() : at]
    return None


def declaration_of(body: str, member: str) -> str | None:
    """The declaration of a member function, up to its semicolon."""
    match = re.search(rf"\b{member}\s*\([^;{{]*[;{{]", body)
    return match.group() if match else None


def compare_members(facts: dict[str, Any], body: str) -> list[str]:
    """Member functions that are missing, or pure where the table says otherwise."""
    problems = []
    for member in facts["members"]:
        declaration = declaration_of(body, member["name"])
        if declaration is None:
            problems.append(f"C++ {facts['cpp']}::{member['name']} is missing")
        elif bool(re.search(r"=\s*0\s*;", declaration)) != member["abstract"]:
            problems.append(f"C++ {facts['cpp']}::{member['name']} is {'not ' if member['abstract'] else ''}abstract")
    return problems


def compare_headers(facts: dict[str, Any], root: Path) -> list[str]:
    """Every name of the table that C++ lacks."""
    problems = []
    for entry in [*facts["constants"], *facts["functions"], *facts["classes"]]:
        text = read_header(root, entry["header"])
        if text is None:
            problems.append(f"C++ header {entry['header']} of {entry['name']} is missing")
            continue
        if "fields" not in entry:
            if not re.search(rf"\b{entry['cpp']}\b", text):
                problems.append(f"C++ {entry['cpp']} is missing in {entry['header']}")
            continue
        body = body_of(text, entry["cpp"])
        if body is None:
            problems.append(f"C++ {entry['cpp']} is missing in {entry['header']}")
            continue
        for field in entry["fields"]:
            name = field.get("cpp", field["name"])
            if name is not None and not re.search(rf"\b{name}\s*(?:=|;|\{{)", body):
                problems.append(f"C++ {entry['cpp']}::{name} is missing in {entry['header']}")
        problems += compare_members(entry, body)
    return problems
