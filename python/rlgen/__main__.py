"""`python -m rlgen FILE`: a table of the rollouts in a file."""

from __future__ import annotations

import argparse
import sys
from statistics import fmean

from rlgen.rollouts import Rollout, RolloutFormatError, read_rollouts

HEADINGS = ("id", "sample", "tokens", "finish", "sum logprob", "mean logprob", "text")


def row_of(rollout: Rollout, width: int) -> tuple[str, ...]:
    """The cells of one rollout; the text is cut to `width` characters."""
    text = rollout.error.message if rollout.error else " ".join((rollout.text or "").split())
    total = f"{sum(rollout.logprobs):.4f}" if rollout.logprobs else "-"
    mean = f"{fmean(rollout.logprobs):.4f}" if rollout.logprobs else "-"
    sample = "-" if rollout.sample is None else str(rollout.sample)
    shown = text if len(text) <= width else text[: width - 1] + "…"
    return (rollout.id, sample, str(len(rollout.token_ids)), rollout.finish_reason, total, mean, shown)


def print_table(rows: list[tuple[str, ...]]) -> None:
    """The rows under HEADINGS, in columns; numbers to the right."""
    widths = [max(len(row[column]) for row in [HEADINGS, *rows]) for column in range(len(HEADINGS))]
    for row in [HEADINGS, (*("-" * width for width in widths[:-1]), "----"), *rows]:
        cells = [
            cell.rjust(width) if heading in {"sample", "tokens", "sum logprob", "mean logprob"} else cell.ljust(width)
            for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
        ]
        print("  ".join(cells).rstrip())


def main() -> int:
    """Prints the table; 1 when the file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m rlgen", description="Prints a table of the rollouts in a file.")
    parser.add_argument("file", help="output of rlgen generate or rlgen score")
    parser.add_argument("--width", type=int, default=60, help="characters of text to show (default 60)")
    arguments = parser.parse_args()
    try:
        rollouts = list(read_rollouts(arguments.file))
    except (OSError, RolloutFormatError) as error:
        print(f"rlgen: {error}", file=sys.stderr)
        return 1
    print_table([row_of(rollout, arguments.width) for rollout in rollouts])
    failed = sum(rollout.failed for rollout in rollouts)
    tokens = sum(len(rollout.token_ids) for rollout in rollouts)
    print(f"\n{len(rollouts)} rollouts, {tokens} tokens, {failed} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
