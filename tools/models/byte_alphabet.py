"""The printable stand-ins that byte-level BPE vocabularies use for the 256 byte values."""

from __future__ import annotations


def byte_alphabet() -> list[str]:
    """One character per byte value.

    Printable Latin-1 bytes stand for themselves; the others take the code points from 256 up, in
    order (the rule of GPT-2's vocabulary).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet: list[str] = []
    stand_in = 0x100
    for value in range(256):
        if value in printable:
            alphabet.append(chr(value))
        else:
            alphabet.append(chr(stand_in))
            stand_in += 1
    return alphabet


ALPHABET = byte_alphabet()


def spell(data: bytes) -> str:
    """The vocabulary entry that stands for `data`."""
    return "".join(ALPHABET[value] for value in data)
