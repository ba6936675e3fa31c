#!/usr/bin/env python3
"""Writes goldens of Hugging Face's tokenizers library for random Unicode texts.

For each tokenizer of tests/fixtures/text/tokenizers, in the format of its goldens.json, into
DIR/<name>/goldens.json. RLGEN_TOKENIZER_GOLDENS=DIR makes text_test compare with them. Runs in the
environment of tools/requirements.txt.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from make_text_goldens import DEMO_TOKENIZER, MAKERS, SCHEMA, golden  # noqa: E402

from goldens.corpus import random_text  # noqa: E402

FOLDER = ROOT / "tests" / "fixtures" / "text" / "tokenizers"
SURROGATES = range(0xD800, 0xE000)
PIECES = (
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "'s",
    "don't",
    "the",
    "Hello",
    "1234",
    "...",
    "👩‍👩‍👧",
    "🇫🇷",
    "e\u0301",
    "한",
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "[INST]",
    "</s>",
    "<tool_call>",
    "<0xE4>",
    "▁",
    "Ġ",
)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--texts", type=int, default=6000, help="how many (default: 6000)")
    parser.add_argument("--seed", type=int, default=6, help="seed of the texts (default: 6)")
    return parser.parse_args()


def any_character(generator: random.Random) -> str:
    """Any code point that a text may hold."""
    while (code := generator.randrange(0x110000)) in SURROGATES:
        pass
    return chr(code)


def make_text(generator: random.Random) -> str:
    """A text from a few scripts, from all of Unicode, or from pieces that tokenizers treat specially."""
    kind = generator.randrange(3)
    if kind == 0:
        return random_text(generator)
    length = generator.randint(1, 30)
    if kind == 1:
        return "".join(any_character(generator) for _ in range(length))
    return "".join(
        generator.choice(PIECES) if generator.random() < 0.7 else random_text(generator)[:4] for _ in range(length)
    )


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    generator = random.Random(arguments.seed)
    texts = [make_text(generator) for _ in range(arguments.texts)]
    sources = {name: FOLDER / name / "tokenizer.json" for name in MAKERS} | {"smollm2": DEMO_TOKENIZER}
    for name, source in sources.items():
        tokenizer = Tokenizer.from_file(str(source))
        document = {"schema": SCHEMA, "seed": arguments.seed, "cases": [golden(tokenizer, text) for text in texts]}
        (arguments.output / name).mkdir(parents=True, exist_ok=True)
        (arguments.output / name / "goldens.json").write_text(json.dumps(document), encoding="utf-8")
    print(f"{len(texts)} texts, seed {arguments.seed}, {len(sources)} tokenizers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
