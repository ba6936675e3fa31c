#!/usr/bin/env python3
"""Makes table checkpoints: the next-token logits depend on the last token alone.

The table is a JSON file: "vocab_size" V, "default" (V logits), "rows" (token id -> V logits, or
-> {token id: logit} over the default), "eos", "max_position_embeddings", "layers", and for a
tokenizer "tokens" (text, {"bytes": hex} or null for each id) with "special" ids. Without files,
every table of tests/fixtures/tables is made.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from models import folder
from models.table import parse_table, table_config, table_weights
from models.table_tokenizer import write_table_tokenizer

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tests" / "fixtures" / "tables"


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, metavar="TABLE.json", help="tables to make checkpoints of")
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "tests" / "fixtures" / "checkpoints",
        help="folder that gets one folder table_NAME for each table",
    )
    return parser.parse_args(argv)


def make(document: dict[str, Any], target: Path) -> None:
    """Writes the checkpoint of a table in JSON form to `target`, in place of what was there."""
    table = parse_table(document)
    if target.exists():
        shutil.rmtree(target)
    folder.write_checkpoint(target, table_config(table), table_weights(table), "F32")
    if "tokens" in document:
        write_table_tokenizer(target, document)


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    for path in arguments.tables or sorted(TABLES.glob("*.json")):
        target = arguments.output / f"table_{path.stem}"
        try:
            make(json.loads(path.read_text(encoding="utf-8")), target)
        except (OSError, ValueError, KeyError) as error:
            print(f"make_table_checkpoint: {path}: {error}", file=sys.stderr)
            return 1
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
