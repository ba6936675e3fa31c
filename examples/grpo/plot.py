#!/usr/bin/env python3
"""Draws the learning curve of sums.py: reward, and the trainer's distance from the engine. Needs matplotlib."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(numbers: Path, picture: Path) -> None:
    """Reads what `sums.py --output` wrote, and writes a PNG."""
    run = json.loads(numbers.read_text())
    rewards = [step["reward"] for step in run["steps"]]
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), height_ratios=(3, 1))
    above.plot(rewards, marker=".", label="sampled answers of the step")
    greedy = [(point["step"], point["reward"]) for point in run["greedy"]]
    above.plot(*zip(*greedy, strict=True), "s--", label="most probable answers to all 100 sums")
    above.set(ylabel="mean reward", ylim=(0, 1.05))
    above.legend(loc="lower right")
    below.semilogy([step["kl"] for step in run["steps"]], marker=".", color="tab:red")
    below.set(xlabel="step", ylabel="KL per token")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", type=Path, help="the JSON file of sums.py")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    given = parser.parse_args()
    draw(given.numbers, given.picture)


if __name__ == "__main__":
    main()
