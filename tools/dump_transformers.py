#!/usr/bin/env python3
"""Writes what Hugging Face Transformers computes for some token ids as a file for `rlgen diff --reference`.

Runs the model in float32 on the CPU, without a key-value cache, and takes the values at the places
that docs/diff.md names. Needs torch, transformers and safetensors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAD_ID = 0


class InputError(Exception):
    """Token ids that cannot be read; the text says where and why."""


def check_ids(ids: Any, where: str) -> list[int]:
    """The ids, where they are a list of whole numbers of 0 or more."""
    good = isinstance(ids, list) and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids)
    if not good:
        raise InputError(f"{where}: {json.dumps(ids)} is no list of token ids")
    return ids


def parse_ids(text: str) -> list[int]:
    """The ids of "1,2,3"."""
    try:
        return check_ids([int(part) for part in text.split(",")], "--prompt-token-ids")
    except ValueError as error:
        raise InputError(f"--prompt-token-ids: {text!r} is no list of token ids") from error


def read_line(line: str, where: str) -> list[int] | None:
    """The ids of a rollout line, prompt and output; None where the line has an error."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
    if not isinstance(entry, dict):
        raise InputError(f"{where}: no object")
    if entry.get("error") is not None:
        return None
    prompt = check_ids(entry.get("prompt_token_ids"), f"{where}: prompt_token_ids")
    ids = prompt + check_ids(entry.get("token_ids", []), f"{where}: token_ids")
    if not ids:
        raise InputError(f"{where}: there are no token ids")
    return ids


def read_sequences(path: Path) -> list[list[int]]:
    """The ids of every line of a JSONL file that has no error, as `rlgen diff --input` reads them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    read = [read_line(line, f"{path} line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    sequences = [ids for ids in read if ids is not None]
    if not sequences:
        raise InputError(f"{path}: no line with token ids")
    return sequences


class Recorder:
    """Takes the values of one forward pass of a model whose modules have Llama's names."""

    def __init__(self, model: Any) -> None:
        self._values: dict[str, Any] = {}
        self._projected: dict[tuple[int, str], Any] = {}
        self._rotated: dict[int, tuple[Any, Any]] = {}
        self._layer = -1
        self._undo: list[Callable[[], None]] = []
        base = model.model
        self._after(base.embed_tokens, "embedding")
        for index, layer in enumerate(base.layers):
            self._watch_layer(index, layer)
        self._after(base.norm, "final_norm")
        self._after(model.lm_head, "logits")
        self._watch_rotary(sys.modules[type(base.layers[0].self_attn).__module__])

    def take(self, tokens: int) -> dict[str, Any]:
        """Values by place, float32 [tokens, width], of the pass that is over; forgets them."""
        for index in {layer for layer, _ in self._projected}:
            self._values[f"layers.{index}.qkv"] = self._qkv(index)
        values = {name: value[0, :tokens].contiguous() for name, value in self._values.items()}
        self._values.clear()
        self._projected.clear()
        self._rotated.clear()
        return values

    def close(self) -> None:
        """Takes the hooks away again."""
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _qkv(self, layer: int) -> Any:
        """Queries and keys after rotary embedding and values, side by side."""
        import torch

        query, key = (self._projected[layer, part] for part in "qk")
        if layer in self._rotated:
            query, key = (heads.transpose(1, 2).flatten(2) for heads in self._rotated[layer])
        else:
            query, key = query.flatten(2), key.flatten(2)
        return torch.cat([query, key, self._projected[layer, "v"].flatten(2)], dim=-1)

    def _watch_layer(self, index: int, layer: Any) -> None:
        attention = layer.self_attn
        place = f"layers.{index}"
        self._after(layer.input_layernorm, f"{place}.input_norm")
        self._undo.append(attention.register_forward_pre_hook(lambda *_: self._enter(index)).remove)
        if hasattr(attention, "k_proj"):
            self._watch_heads(index, attention)
        self._before(attention.o_proj, f"{place}.attention")
        self._before(layer.post_attention_layernorm, f"{place}.post_attention")
        self._after(layer, f"{place}.output")

    def _watch_heads(self, index: int, attention: Any) -> None:
        """Queries, keys and values; latent attention has none of its own, so that the place is left out."""
        for part in "qkv":
            self._keep_projected(getattr(attention, f"{part}_proj"), index, part)
        for part in "qk":
            if hasattr(attention, f"{part}_norm"):
                self._keep_projected(getattr(attention, f"{part}_norm"), index, part)

    def _enter(self, layer: int) -> None:
        self._layer = layer

    def _keep_projected(self, module: Any, layer: int, part: str) -> None:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            self._projected[layer, part] = output.detach()

        self._undo.append(module.register_forward_hook(hook).remove)

    def _before(self, module: Any, place: str) -> None:
        def hook(_module: Any, inputs: Any) -> None:
            self._values[place] = inputs[0].detach().clone()

        self._undo.append(module.register_forward_pre_hook(hook).remove)

    def _after(self, module: Any, place: str) -> None:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            self._values[place] = value.detach().clone()

        self._undo.append(module.register_forward_hook(hook).remove)

    def _watch_rotary(self, module: Any) -> None:
        """Puts a function that remembers its result in place of the module's rotary embedding."""
        if not hasattr(module, "apply_rotary_pos_emb"):
            return
        original: Callable[..., tuple[Any, Any]] = module.apply_rotary_pos_emb

        def remember(*arguments: Any, **options: Any) -> tuple[Any, Any]:
            rotated = original(*arguments, **options)
            self._rotated[self._layer] = rotated
            return rotated

        module.apply_rotary_pos_emb = remember
        self._undo.append(lambda: setattr(module, "apply_rotary_pos_emb", original))


def load_model(path: str) -> Any:
    """The model in float32, ready to run."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    )
    return model.eval()


def dump(model: Any, sequences: list[list[int]], pad_to: int) -> dict[str, Any]:
    """Tensors by their names in the file."""
    import torch

    recorder = Recorder(model)
    tensors: dict[str, Any] = {}
    try:
        for index, ids in enumerate(sequences):
            with torch.no_grad():
                model(torch.tensor([ids + [PAD_ID] * (pad_to - len(ids))]), use_cache=False)
            tensors[f"{index}.token_ids"] = torch.tensor(ids, dtype=torch.int32)
            tensors |= {f"{index}.{place}": value for place, value in recorder.take(len(ids)).items()}
    finally:
        recorder.close()
    return tensors


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Hugging Face folder, or a repository id in the local cache")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt-token-ids", metavar="IDS", help="token ids: 1,2,3")
    source.add_argument("--input", type=Path, help="JSONL file with prompt_token_ids and token_ids")
    parser.add_argument("--output", type=Path, required=True, help="file to write (.safetensors)")
    parser.add_argument(
        "--pad-to",
        type=int,
        default=0,
        metavar="LENGTH",
        help="pad each sequence on the right to this length, which is rlgen's context length: for rotary scaling "
        "that follows the length of the sequence (dynamic, longrope)",
    )
    return parser.parse_args(argv)


def main() -> int:
    """Writes the file; 2 where the ids cannot be read."""
    arguments = parse_arguments()
    try:
        if arguments.input:
            sequences = read_sequences(arguments.input)
        else:
            sequences = [parse_ids(arguments.prompt_token_ids)]
    except (InputError, OSError) as error:
        print(f"dump_transformers: {error}", file=sys.stderr)
        return 2
    import transformers
    from safetensors.torch import save_file

    tensors = dump(load_model(arguments.model), sequences, arguments.pad_to)
    source = f"transformers {transformers.__version__}, float32, {arguments.model}"
    save_file(tensors, arguments.output, metadata={"format": "rlgen.activations/1", "source": source})
    return 0


if __name__ == "__main__":
    sys.exit(main())
