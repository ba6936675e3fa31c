"""A small record of the files that a tool made, to see later whether they are still complete."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

STAMP_NAME = "fetch-stamp.json"


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def begin_stamp(folder: Path, recipe: str) -> None:
    """Marks a folder as being made, so that a run that was stopped half-way is known as such."""
    (folder / STAMP_NAME).write_text(json.dumps({"recipe": recipe, "files": None}, indent=2) + "\n")


def write_stamp(folder: Path, recipe: str, names: list[str]) -> None:
    """Records size and digest of the files `names` in `folder`, and the recipe that made them."""
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": file_digest(folder / name)} for name in names}
    text = json.dumps({"recipe": recipe, "files": files}, indent=2) + "\n"
    (folder / STAMP_NAME).write_text(text)


def find_fault(folder: Path, recipe: str) -> str | None:
    """Says what is wrong with a folder, or None where it is as `recipe` left it."""
    path = folder / STAMP_NAME
    if not path.is_file():
        return "it has no stamp"
    try:
        stamp = json.loads(path.read_text())
        made_by, files = stamp["recipe"], stamp["files"]
    except (ValueError, KeyError, TypeError):
        return f"{STAMP_NAME} cannot be read"
    if made_by != recipe:
        return f"it was made by {made_by!r}, this tool makes {recipe!r}"
    if files is None:
        return "an earlier run was stopped half-way"
    for name, facts in files.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != facts["bytes"]:
            return f"{name} has {file.stat().st_size} bytes, the stamp says {facts['bytes']}"
        if file_digest(file) != facts["sha256"]:
            return f"{name} differs from its digest in the stamp"
    return None
