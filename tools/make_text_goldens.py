#!/usr/bin/env python3
"""Makes the text goldens: small tokenizers, and the ids and texts that `tokenizers` gives.

Writes TOKENIZER/tokenizer.json and TOKENIZER/goldens.json for each tokenizer made here, and
smollm2/goldens.json alone for the demo model, where that has been fetched.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from goldens.corpus import corpus
from goldens.made_tokenizers import MAKERS

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests" / "fixtures" / "text"
DEMO_TOKENIZER = ROOT / "models" / "SmolLM2-135M-Instruct" / "tokenizer.json"
SCHEMA = 1


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, default=TEXT / "training.txt", help="text to train on")
    parser.add_argument("--output", type=Path, default=TEXT / "tokenizers", help="folder that gets one folder each")
    return parser.parse_args(argv)


def decodes_added_tokens_wrongly(tokenizer: Tokenizer, ids: list[int]) -> bool:
    """Whether the library's decoder takes the text of an added token among `ids` for byte stand-ins."""
    added = tokenizer.get_added_tokens_decoder()
    return isinstance(tokenizer.decoder, ByteLevel) and any(i in added and not added[i].content.isascii() for i in ids)


def golden(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """What the library makes of one text; decoded texts are null where the library is known to err."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    wrong = decodes_added_tokens_wrongly(tokenizer, ids)
    return {
        "text": text,
        "ids": ids,
        "ids_with_special": tokenizer.encode(text, add_special_tokens=True).ids,
        "decoded": None if wrong else tokenizer.decode(ids, skip_special_tokens=False),
        "decoded_without_special": None if wrong else tokenizer.decode(ids, skip_special_tokens=True),
    }


def write_goldens(tokenizer: Tokenizer, path: Path) -> None:
    """Writes goldens of the whole corpus, one text a line."""
    head = {"schema": SCHEMA, "library": f"tokenizers {tokenizers.__version__}"}
    lines = ",\n".join(json.dumps(golden(tokenizer, text), separators=(",", ":")) for text in corpus())
    text = json.dumps(head)[:-1] + ', "cases": [\n' + lines + "\n]}\n"
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    for name, make in MAKERS.items():
        folder = arguments.output / name
        folder.mkdir(parents=True, exist_ok=True)
        make(arguments.training).save(str(folder / "tokenizer.json"))
        write_goldens(Tokenizer.from_file(str(folder / "tokenizer.json")), folder / "goldens.json")
        print(folder)
    if not DEMO_TOKENIZER.is_file():
        print(f"smollm2 left out: {DEMO_TOKENIZER} is missing (tools/fetch_demo_model.py makes it)", file=sys.stderr)
        return 0
    (arguments.output / "smollm2").mkdir(exist_ok=True)
    write_goldens(Tokenizer.from_file(str(DEMO_TOKENIZER)), arguments.output / "smollm2" / "goldens.json")
    print(arguments.output / "smollm2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
