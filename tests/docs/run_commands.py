#!/usr/bin/env python3
"""Runs every shell block of README.md and docs/*.md, in order, and fails where one fails.

The blocks run in a copy of the working tree, so that what they write does no harm: README.md first,
then the pages by name, each block by `bash -eu -o pipefail`. The copy builds for itself; its virtual
environments, models and Rust objects are those of the repository. A block that cannot run by nature
has the line `<!-- not run: REASON -->` above it and is counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from markdown_blocks import SHELL, Block, find_blocks

ROOT = Path(__file__).resolve().parents[2]
SHARED = (".venv", ".venv-torch", ".cache", "models", "build/cargo")
KEPT = (".git", "build", *SHARED)
TAIL = 40


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="pages (default: README.md and docs/*.md)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    parser.add_argument("--copy", type=Path, help="the copy (default: build/docs/copy in the repository)")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one block (default: 3600)")
    parser.add_argument("--list", action="store_true", help="print the blocks and check their marks, run nothing")
    arguments = parser.parse_args(argv)
    arguments.root = arguments.root.resolve()
    arguments.copy = (arguments.copy or arguments.root / "build" / "docs" / "copy").resolve()
    return arguments


def default_pages(root: Path) -> list[str]:
    """README.md and the pages of docs, by name."""
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    return [str(page.relative_to(root)) for page in pages if page.is_file()]


def tree_files(root: Path) -> list[str]:
    """Files that git knows or would take up."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and (root / name).is_file()})


def remove_others(folder: Path, wanted: set[Path]) -> None:
    """Removes what is in the folder and neither wanted nor inside something wanted."""
    holders = {parent for path in wanted for parent in path.parents}
    for path in folder.iterdir():
        if path in wanted:
            continue
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif path in holders:
            remove_others(path, wanted)
        else:
            shutil.rmtree(path)


def make_copy(root: Path, copy: Path) -> None:
    """Makes `copy` the working tree of `root`; what it has built stays, everything else goes."""
    copy.mkdir(parents=True, exist_ok=True)
    names = tree_files(root)
    remove_others(copy, {copy / name for name in [*names, *KEPT]})
    for name in names:
        source, target = root / name, copy / name
        if not target.is_file() or target.stat().st_mtime != source.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for name in SHARED:
        if (root / name).is_dir() and not (copy / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).symlink_to(root / name)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(copy), *command], check=True)


def run_block(block: Block, copy: Path, timeout: float) -> bool:
    """Runs one block and prints its row; its last lines too where it fails."""
    environment = os.environ | {"CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1"}
    start = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", block.code],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
        output, why = done.stdout, f"exit code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        output, why = late.stdout or b"", f"not finished after {timeout:g} s"
    taken = time.monotonic() - start
    first = block.code.strip().splitlines()[0] if block.code.strip() else "(empty)"
    print(f"{'FAILED' if why else 'ok':8} {block.place:32} {taken:6.1f} s  {first}", flush=True)
    if why:
        print(f"  {why}; the last lines:")
        for line in output.decode(errors="replace").splitlines()[-TAIL:]:
            print(f"  | {line}")
    return not why


def main(argv: list[str] | None = None) -> int:
    """Runs the blocks; returns the exit code."""
    arguments = parse_arguments(argv)
    blocks: list[Block] = []
    faults: list[str] = []
    for page in arguments.pages or default_pages(arguments.root):
        found, wrong = find_blocks(page, (arguments.root / page).read_text(encoding="utf-8"))
        blocks += [block for block in found if block.language in SHELL]
        faults += wrong
    for fault in faults:
        print(fault)
    ready = [block for block in blocks if not block.reason]
    if arguments.list:
        for block in ready:
            print(f"run      {block.place}")
    elif ready:
        make_copy(arguments.root, arguments.copy)
    failed = 0 if arguments.list else sum(not run_block(block, arguments.copy, arguments.timeout) for block in ready)
    left_out = [block for block in blocks if block.reason]
    for block in left_out:
        print(f"not run  {block.place:32} {block.reason}")
    print(f"{len(ready)} blocks, {failed} failed, {len(left_out)} not run, {len(faults)} faults in pages")
    return 1 if failed or faults else 0


if __name__ == "__main__":
    sys.exit(main())
