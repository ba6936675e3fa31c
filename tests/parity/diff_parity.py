#!/usr/bin/env python3
"""Compares what rlgen and Hugging Face Transformers compute at every place, by `rlgen diff --reference`.

Runs in the environment of tools/requirements-parity.txt. Prints one line a checkpoint; exit code 1
where a place differs that should not, or a changed weight is not found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from dump_transformers import dump, load_model  # noqa: E402

CHECKPOINTS = (
    "deepseek_v2",
    "deepseek_v3",
    "gpt_oss",
    "llama",
    "llama_bias",
    "llama_tied",
    "llama_rope_llama3",
    "mistral",
    "mixtral",
    "olmoe_clip",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "smollm3",
)
PARTS = ("input_norm", "qkv", "attention", "post_attention", "output")
TOLERANCE = 2e-4


def sequences(vocab_size: int) -> list[list[int]]:
    """Ids that the model has."""
    return [[(5 * i + 2) % vocab_size for i in range(40)], [(11 * i + 7) % vocab_size for i in range(23)]]


def run_diff(rlgen: Path, model: Path, reference: Path) -> dict[str, Any]:
    """The report of a comparison."""
    command = [rlgen, "diff", "--model", model, "--reference", reference, "--tolerance", TOLERANCE, "--json"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        raise RuntimeError(f"{model.name}: exit code {result.returncode}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def down_weights(mlp: Any) -> torch.Tensor:
    """The last matrix of a feed-forward, or those of all its experts: [..., hidden, inner]."""
    return mlp.experts.down_proj if hasattr(mlp, "experts") else mlp.down_proj.weight


def check(rlgen: Path, name: str, scratch: Path) -> list[str]:
    """Faults of one checkpoint: as it is, and with a weight changed on the side of Transformers."""
    folder = ROOT / "tests" / "fixtures" / "checkpoints" / name
    model = load_model(str(folder))
    reference = scratch / f"{name}.safetensors"
    ids = sequences(model.config.vocab_size)
    save_file(dump(model, ids, 0), reference)
    faults = []
    report = run_diff(rlgen, folder, reference)
    places = [place["place"] for place in report["places"]]
    layers = model.config.num_hidden_layers
    parts = [part for part in PARTS if part != "qkv" or not hasattr(model.config, "kv_lora_rank")]
    wanted = ["embedding", *(f"layers.{i}.{part}" for i in range(layers) for part in parts), "final_norm", "logits"]
    if places != wanted:
        faults.append(f"{name}: places {places}")
    if report["first"]:
        faults.append(f"{name}: differs at {report['first']}")
    with torch.no_grad():
        down_weights(model.model.layers[1].mlp)[..., 0, 0] += 1.0
    save_file(dump(model, ids, 0), reference)
    first = run_diff(rlgen, folder, reference)["first"]
    if first is None or (first["position"], first["place"]) != (0, "layers.1.output"):
        faults.append(f"{name}: a changed weight of layers.1.output was found at {first}")
    print(f"{name}: {'differs' if faults else 'good'}, {len(places)} places", flush=True)
    return faults


def main() -> int:
    """Runs the tool; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rlgen", type=Path, required=True, help="path of the built rlgen command line")
    arguments = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory(prefix="rlgen-diff-") as scratch:
        for name in CHECKPOINTS:
            faults += check(arguments.rlgen, name, Path(scratch))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
