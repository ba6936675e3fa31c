"""Finds the code blocks of a Markdown page and what is to be done with them."""

from __future__ import annotations

import re
from dataclasses import dataclass

SHELL = {"sh", "bash"}
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)[^`]*$")
MARK = re.compile(r"^ *<!-- not run: (?P<reason>\S.*?) *-->$")
INDENTED = re.compile(r"^ {4,}\S")
LIST_ITEM = re.compile(r"^ *([-*+]|\d+[.)]) ")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: file name as given.
        line: number of the opening fence, from 1.
        language: the word after the fence.
        code: the text without the fence's indentation.
        reason: why it is not run; empty for a block that is.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str = ""

    @property
    def place(self) -> str:
        """PAGE:LINE."""
        return f"{self.page}:{self.line}"


def find_blocks(page: str, text: str) -> tuple[list[Block], list[str]]:
    """The fenced blocks of a page in order, and its faults, one sentence each.

    A block that a machine cannot run has the line `<!-- not run: REASON -->` above it. Faults are a
    fence without a language or without an end, a mark that no shell block follows, and an indented
    code block, since nobody could say what language that is.
    """
    blocks: list[Block] = []
    faults: list[str] = []
    lines = text.splitlines()
    mark, mark_line, at = "", 0, 0
    blank_before, in_list = True, False
    while at < len(lines):
        line = lines[at]
        opened = FENCE.match(line)
        if opened:
            end = closing_fence(lines, at, opened)
            if end is None:
                faults.append(f"{page}:{at + 1}: the block has no end")
                break
            block = Block(page, at + 1, opened["language"], unindent(lines[at + 1 : end], len(opened["indent"])), mark)
            blocks.append(block)
            faults += faults_of(block)
            mark, at, blank_before = "", end + 1, False
            continue
        if mark and line.strip():
            faults.append(f"{page}:{mark_line}: 'not run' stands above no block")
            mark = ""
        marked = MARK.match(line)
        if marked:
            mark, mark_line = marked["reason"], at + 1
        elif INDENTED.match(line) and blank_before and not LIST_ITEM.match(line):
            depth = len(line) - len(line.lstrip())
            if not in_list or depth >= 7:
                faults.append(f"{page}:{at + 1}: indented code block; use a fence with a language")
        in_list = bool(LIST_ITEM.match(line)) or (in_list and (not line.strip() or line.startswith(" ")))
        blank_before = not line.strip()
        at += 1
    if mark:
        faults.append(f"{page}:{mark_line}: 'not run' stands above no block")
    return blocks, faults


def closing_fence(lines: list[str], start: int, opened: re.Match[str]) -> int | None:
    """Index of the line that closes the fence of line `start`."""
    for index in range(start + 1, len(lines)):
        stripped = lines[index].strip()
        if stripped.startswith(opened["fence"]) and set(stripped) == {opened["fence"][0]}:
            return index
    return None


def unindent(lines: list[str], width: int) -> str:
    """The lines without up to `width` leading blanks each."""
    return "".join(line[min(width, len(line) - len(line.lstrip(" "))) :] + "\n" for line in lines)


def faults_of(block: Block) -> list[str]:
    """What is wrong with a block by itself."""
    faults = []
    if not block.language:
        faults.append(f"{block.place}: no language after the fence; sh is run, text is not")
    if block.reason and block.language not in SHELL:
        faults.append(f"{block.place}: 'not run' stands above a block that is no shell")
    return faults
