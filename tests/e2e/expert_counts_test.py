"""How many experts a model may have, and counts that do not fit its tensors."""

from __future__ import annotations

import base64
import math
import shutil
import struct
import unittest
from pathlib import Path
from typing import Any

from expert_checkpoints import Tensor, Tensors, copy_checkpoint, write_many_experts, write_tensors
from harness import CommandLineTest, Line

RECORD = "--enable-return-routed-experts"
PROMPT: Line = {"id": "a", "prompt_token_ids": [5, 9, 30, 42, 17], "max_tokens": 6, "seed": 3, "ignore_eos": True}
ROWS = 10
LAYER = "model.layers.2.mlp"


def ids_of(line: Line, name: str) -> list[int]:
    """The expert ids of a line whose routes are of type `name`, in their order."""
    magic, dtype, shape, content = line["routed_experts"].split(":")
    assert (magic, dtype, shape) == ("nrlre1", name, f"{ROWS}x1x3"), line["routed_experts"][:40]
    raw = base64.b64decode(content, validate=True)
    width = int(name.removeprefix("int")) // 8
    return [int.from_bytes(raw[at : at + width], "little", signed=True) for at in range(0, len(raw), width)]


class ManyExperts(CommandLineTest):
    """On both sides of what a type holds."""

    def one_line(self, model: Path, prompt: Line, name: str, *options: object) -> Line:
        """What the prompt gives."""
        result = self.generate(str(model), [prompt], RECORD, *options, output=f"{name}.jsonl")
        self.assertEqual(result.code, 0, result.stderr)
        return result.one()

    def test_fb231_every_id_and_the_sentinel_come_back(self) -> None:
        """In the narrowest type that holds them; the last expert can be given, in text and in lists."""
        for count, name in ((128, "int8"), (129, "int16"), (32768, "int16"), (32769, "int32")):
            with self.subTest(count=count):
                model = write_many_experts(self.folder / str(count), count)
                free = self.one_line(model, PROMPT, f"free{count}")
                ids = ids_of(free, name)
                self.assertTrue(all(0 <= i < count for i in ids))
                self.assertTrue(all(len(set(ids[at : at + 3])) == 3 for at in range(0, len(ids), 3)))
                last = [[[count - 1, 0, 1]]] * (ROWS - 1) + [[[-1] * 3]]
                given = self.one_line(model, PROMPT | {"routed_experts": last}, f"given{count}")
                self.assertEqual(ids_of(given, name)[: 3 * (ROWS - 1)], [count - 1, 0, 1] * (ROWS - 1))
                again = PROMPT | {"routed_experts": given["routed_experts"]}
                self.assertEqual(self.one_line(model, again, f"text{count}")["logprobs"], given["logprobs"])
                lists = self.one_line(model, again, f"lists{count}", "--routed-experts-format", "list")
                again["routed_experts"] = lists["routed_experts"]
                self.assertEqual(self.one_line(model, again, f"again{count}")["logprobs"], given["logprobs"])
                beyond = PROMPT | {"routed_experts": [[[count, 0, 1]]]}
                failed = self.generate(str(model), [beyond], output=f"beyond{count}.jsonl").one()
                self.assertIn(f"names expert {count}; experts go from 0 to {count - 1}", failed["error"]["message"])


class CountsThatDoNotFit(CommandLineTest):
    """Refused at load, with the tensor and the key of the configuration."""

    def refused(self, tensors: Tensors | None, *parts: str) -> None:
        """The model of self.folder / "model" with these tensors is no model."""
        model = self.folder / "model"
        if tensors is not None:
            write_tensors(model / "model.safetensors", tensors)
        result = self.generate(str(model), [PROMPT])
        self.assert_one_error(result, 1, *parts)
        self.assertEqual(result.lines, [])

    def copied(self, changes: dict[str, Any] | None = None, name: str = "qwen3_moe") -> Tensors:
        """A copy of a fixture in self.folder / "model"."""
        return copy_checkpoint(name, self.folder / "model", changes or {})

    def test_more_experts_than_there_are(self) -> None:
        """Of separate tensors the first that is missing is named."""
        self.copied({"num_experts": 9})
        self.refused(None, f'"{LAYER}.gate.weight" has shape [8, 32], expected [9, 32] (num_experts is 9)')

    def test_fewer_experts_than_there_are(self) -> None:
        """Grouped tensors have another shape."""
        self.copied({"num_experts": 7}, "qwen3_moe_grouped")
        self.refused(None, "[8, 32, 20]", "expected [7, 32, 20]", "num_experts is 7")

    def test_more_experts_to_a_token_than_there_are(self) -> None:
        """Both keys are named."""
        self.copied({"num_experts_per_tok": 9})
        self.refused(None, "num_experts_per_tok is 9, but num_experts is 8")

    def test_one_expert_is_missing(self) -> None:
        """It is named, and nothing else."""
        tensors = self.copied()
        name = f"{LAYER}.experts.5.up_proj.weight"
        del tensors[name]
        self.refused(tensors, f'"{name}"', "num_experts is 8", "missing")

    def test_fused_and_separate_experts_mixed(self) -> None:
        """A tensor of each form is named."""
        tensors = self.copied()
        parts = [tensors.pop(f"{LAYER}.experts.{i}.down_proj.weight") for i in range(8)]
        fused = Tensor(parts[0].dtype, [8, *parts[0].shape], b"".join(part.content for part in parts))
        tensors[f"{LAYER}.experts.down_proj"] = fused
        self.refused(tensors, "one by one", "grouped", f'"{LAYER}.experts.down_proj"')

    def test_a_router_of_another_size(self) -> None:
        """With the shape that is expected."""
        tensors = self.copied()
        router = tensors[f"{LAYER}.gate.weight"]
        router.shape, router.content = [7, 32], router.content[: 7 * 32 * 4]
        self.refused(tensors, f'"{LAYER}.gate.weight" has shape [7, 32], expected [8, 32] (num_experts is 8)')

    def test_a_bias_of_the_router_of_another_size(self) -> None:
        """One that is added to the scores, and one that is added where experts are chosen."""
        for name, tensor, key, experts in (
            ("gpt_oss", "model.layers.1.mlp.router.bias", "num_local_experts", 6),
            ("deepseek_v3", f"{LAYER}.gate.e_score_correction_bias", "n_routed_experts", 16),
        ):
            for size in (experts - 1, experts + 1):
                with self.subTest(name=name, size=size):
                    shutil.rmtree(self.folder / "model", ignore_errors=True)
                    tensors = self.copied(name=name)
                    whole = tensors[tensor]
                    self.assertEqual(whole.shape, [experts])
                    width = len(whole.content) // experts
                    tensors[tensor] = Tensor(whole.dtype, [size], (whole.content * 2)[: size * width])
                    said = f'"{tensor}" has shape [{size}], expected [{experts}] ({key} is {experts})'
                    self.refused(tensors, said)

    def test_fb181_a_bias_of_the_router_that_is_not_finite(self) -> None:
        """One that is added to the scores, and one that is added where experts are chosen."""
        for name, tensor in (
            ("gpt_oss", "model.layers.1.mlp.router.bias"),
            ("deepseek_v3", f"{LAYER}.gate.e_score_correction_bias"),
        ):
            for value in (math.nan, math.inf, -math.inf):
                with self.subTest(name=name, value=value):
                    shutil.rmtree(self.folder / "model", ignore_errors=True)
                    tensors = self.copied(name=name)
                    bias = tensors[tensor]
                    number = struct.pack("<f", value)
                    element = number if bias.dtype == "F32" else number[2:]
                    bias.content = bias.content[: len(element)] + element + bias.content[2 * len(element) :]
                    self.refused(tensors, f"tensor {tensor}: element 1 is NaN or infinite")


if __name__ == "__main__":
    unittest.main()
