#!/usr/bin/env python3
"""Makes the tiny random checkpoints of the tests as Hugging Face folders.

Each has a fixed seed, so a second run writes the same bytes. Without names all of them are made,
but for the large ones, which are made by name alone, in models/ unless --output says otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from models import folder
from models.grouped_experts import group_experts
from models.large_checkpoint import LARGE_RECIPES, write_large
from models.random_weights import random_tensor
from models.recipe import Recipe
from models.tensor_shapes import checkpoint_shapes
from models.test_tokenizer import write_test_tokenizer
from models.tiny_recipes import RECIPES

ROOT = Path(__file__).resolve().parent.parent


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = RECIPES | LARGE_RECIPES
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"checkpoints to make: {', '.join(known)}")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder that gets one folder each (tests/fixtures/checkpoints; models for large ones)",
    )
    parser.add_argument("--list", action="store_true", help="print names and purposes, make nothing")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"unknown checkpoint {', '.join(unknown)}; see --list")
    return arguments


def default_output(name: str) -> Path:
    """The folder for a checkpoint when none was named."""
    return ROOT / "models" if name in LARGE_RECIPES else ROOT / "tests" / "fixtures" / "checkpoints"


def make(recipe: Recipe, target: Path) -> None:
    """Writes the checkpoint of `recipe` to `target`, in place of what was there."""
    if target.exists():
        shutil.rmtree(target)
    values = {name: random_tensor(recipe.seed, name, shape) for name, shape in checkpoint_shapes(recipe.config).items()}
    if recipe.grouped:
        values = group_experts(values)
    folder.write_checkpoint(target, recipe.config, values, recipe.dtype, recipe.shards)
    if recipe.generation_config:
        folder.write_json(target / "generation_config.json", recipe.generation_config)
    if recipe.tokenizer:
        write_test_tokenizer(target)


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    if arguments.list:
        for name, recipe in (RECIPES | LARGE_RECIPES).items():
            print(f"{name}: {recipe.purpose}")
        return 0
    for name in arguments.names or RECIPES:
        target = (arguments.output or default_output(name)) / name
        if name in LARGE_RECIPES:
            write_large(target, LARGE_RECIPES[name])
        else:
            make(RECIPES[name], target)
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
