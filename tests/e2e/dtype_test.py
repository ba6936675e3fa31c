"""Weights in another type than the checkpoint's: rounded once, to nearest even; widening changes nothing."""

from __future__ import annotations

import json
import shutil
import struct
import unittest
from pathlib import Path

from harness import CHECKPOINTS, CommandLineTest, Line

PROMPTS: list[Line] = [
    {"id": str(i), "prompt_token_ids": [3 + i, 9, 40 + i], "max_tokens": 12, "ignore_eos": True, "seed": i}
    for i in range(4)
]


def bfloat16_of(bits: int) -> int:
    """The upper half of float32 bits, rounded to nearest even."""
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def round_checkpoint(source: Path, target: Path) -> None:
    """Copies a float32 checkpoint as one of bfloat16."""
    shutil.copytree(source, target)
    data = (source / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        assert tensor["dtype"] == "F32"
        tensor["dtype"] = "BF16"
        tensor["data_offsets"] = [offset // 2 for offset in tensor["data_offsets"]]
    values = struct.unpack(f"<{(len(data) - 8 - size) // 4}I", data[8 + size :])
    rounded = struct.pack(f"<{len(values)}H", *map(bfloat16_of, values))
    text = json.dumps(header).encode()
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + rounded)


class Types(CommandLineTest):
    """The same prompts on the same weights in several types."""

    def roll(self, model: Path, *options: object) -> dict[str, Line]:
        """The output lines by id."""
        (self.folder / "out.jsonl").unlink(missing_ok=True)
        result = self.generate(str(model), [*PROMPTS], *options)
        self.assertEqual(result.code, 0, result.stderr)
        return {line["id"]: line for line in result.lines}

    def assert_same_bits(self, a: dict[str, Line], b: dict[str, Line]) -> None:
        """Equal tokens and log-probabilities."""
        for name in a:
            for key in ("token_ids", "logprobs"):
                self.assertEqual(a[name][key], b[name][key])

    def test_rounding(self) -> None:
        """What the option makes of float32 is what a rounded checkpoint is."""
        source = CHECKPOINTS / "llama"
        rounded = self.folder / "rounded"
        round_checkpoint(source, rounded)
        made = self.roll(source, "--dtype", "bfloat16")
        self.assert_same_bits(made, self.roll(rounded))
        plain = self.roll(source)
        self.assertNotEqual(made["0"]["logprobs"], plain["0"]["logprobs"])
        self.assertNotEqual(made["0"]["numerics"], plain["0"]["numerics"])

    def test_widening(self) -> None:
        """float32 holds all that a checkpoint has."""
        for model in ("llama_tied", "llama_fp16", "llama"):
            with self.subTest(model=model):
                plain = self.roll(CHECKPOINTS / model)
                wide = self.roll(CHECKPOINTS / model, "--dtype", "float32")
                self.assert_same_bits(plain, wide)
                self.assertEqual(plain["0"]["numerics"], wide["0"]["numerics"])

    def test_its_own_type(self) -> None:
        """Nothing is converted."""
        model = CHECKPOINTS / "llama_tied"
        self.assert_same_bits(self.roll(model), self.roll(model, "--dtype", "bfloat16"))

    def test_a_weight_that_does_not_fit(self) -> None:
        """It would become infinite: the tensor and the value are named."""
        model = self.folder / "large"
        shutil.copytree(CHECKPOINTS / "llama", model)
        data = bytearray((model / "model.safetensors").read_bytes())
        data[-4:] = struct.pack("<f", 70000.0)
        (model / "model.safetensors").write_bytes(bytes(data))
        prompts = self.write_prompts([*PROMPTS])
        run = ("generate", "--model", model, "--prompts", prompts, "--output", self.folder / "o", "--overwrite")
        result = self.run_rlgen(*run, "--dtype", "float16")
        self.assert_one_error(result, 1, "model.safetensors", "holds 70000", "float16")
        self.assertEqual(self.run_rlgen(*run, "--dtype", "bfloat16").code, 0)


if __name__ == "__main__":
    unittest.main()
