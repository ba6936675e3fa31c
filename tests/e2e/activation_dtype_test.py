"""The profiles that round: each another arithmetic, as exact as float32, and named wherever results are."""

from __future__ import annotations

import unittest
from pathlib import Path

from expert_checkpoints import Tensor, copy_checkpoint, write_tensors
from harness import CHECKPOINTS, CommandLineTest, Line

# How `numerics` begins, by profile.
PROFILES = {"bfloat16": "bfloat16/r3/kv=bfloat16", "bfloat16_amx": "bfloat16_amx/r1/kv=bfloat16"}
PROMPTS: list[Line] = [
    {"id": str(i), "prompt_token_ids": [3 + i, 9, 40 + i] * (1 + 7 * i), "max_tokens": 12, "ignore_eos": True, "seed": i}
    for i in range(4)
]


def profile_options(profile: str) -> tuple[str, str]:
    """The options that name a profile."""
    return ("--activation-dtype", profile)


def elements(content: bytes, size: int) -> list[bytes]:
    """The bytes of each element."""
    return [content[at : at + size] for at in range(0, len(content), size)]


class Profile(CommandLineTest):
    """The same prompts in all profiles."""

    def roll(self, model: Path, *options: object) -> dict[str, Line]:
        """The output lines by id."""
        (self.folder / "out.jsonl").unlink(missing_ok=True)
        result = self.generate(str(model), [*PROMPTS], "--seed", 7, *options)
        self.assertEqual(result.code, 0, result.stderr)
        return {line["id"]: line for line in result.lines}

    def test_bits_do_not_depend_on_the_schedule(self) -> None:
        """Scalar code alone, one by one, and the best code with all together: on matrices of each stored type."""
        for model in ("llama", "llama_tied", "llama_fp16", "qwen3_moe"):
            for profile in PROFILES:
                with self.subTest(model=model, profile=profile):
                    options = profile_options(profile)
                    together = self.roll(CHECKPOINTS / model, *options, "--threads", 2)
                    alone = self.roll(
                        CHECKPOINTS / model, *options, "--threads", 1, "--isa", "scalar", "--max-num-seqs", 1,
                        "--max-num-batched-tokens", 5,
                    )  # fmt: skip
                    self.assertEqual(together, alone)

    def test_each_is_named_and_near_the_others(self) -> None:
        """Rounded operands move log-probabilities, but not far; what a line says tells the profiles apart."""
        model = CHECKPOINTS / "llama_tied"
        plain = self.roll(model)
        seen = {str(plain["3"]["logprobs"])}
        for profile, numerics in PROFILES.items():
            rounded = self.roll(model, *profile_options(profile))
            for name, line in rounded.items():
                self.assertTrue(line["numerics"].startswith(numerics), line["numerics"])
                self.assertNotEqual(line["logprobs"], plain[name]["logprobs"])
                self.assertAlmostEqual(line["logprobs"][0], plain[name]["logprobs"][0], delta=0.2)
            seen.add(str(rounded["3"]["logprobs"]))
            wide = self.roll(model, *profile_options(profile), "--kv-cache-dtype", "float32")
            self.assertIn("kv=float32", wide["0"]["numerics"])
        self.assertEqual(len(seen), 1 + len(PROFILES))

    def test_score_gives_its_bits(self) -> None:
        """Scoring is in the profile that its options name."""
        model = str(CHECKPOINTS / "llama_tied")
        for profile in PROFILES:
            made = self.roll(Path(model), *profile_options(profile))
            result = self.score(model, self.folder / "out.jsonl", *profile_options(profile), "--overwrite")
            self.assertEqual(result.code, 0, result.stderr)
            scored = {line["id"]: line for line in result.lines}
            for name, line in made.items():
                self.assertEqual(line["logprobs"], scored[name]["logprobs"])
                self.assertEqual(line["numerics"], scored[name]["numerics"])

    def test_routers_and_gates_are_multiplied_in_float32(self) -> None:
        """Their values in either type give the same bits and routes: the profile does not round what they meet."""
        short, wide = self.folder / "bfloat16", self.folder / "float32"
        tensors = copy_checkpoint("qwen2_moe", short, {})
        copy_checkpoint("qwen2_moe", wide, {})
        scored = [name for name in tensors if name.endswith(("mlp.gate.weight", "mlp.shared_expert_gate.weight"))]
        self.assertEqual(len(scored), 4)
        halves = {name: b"".join(four[2:] for four in elements(tensors[name].content, 4)) for name in scored}
        for name in scored:
            shape = tensors[name].shape
            tensors[name] = Tensor("F32", shape, b"".join(b"\0\0" + half for half in elements(halves[name], 2)))
        write_tensors(wide / "model.safetensors", tensors)
        for name in scored:
            tensors[name] = Tensor("BF16", tensors[name].shape, halves[name])
        write_tensors(short / "model.safetensors", tensors)
        for profile in PROFILES:
            options = (*profile_options(profile), "--enable-return-routed-experts")
            found = [self.roll(model, *options) for model in (short, wide)]
            for name, line in found[0].items():
                for key in ("token_ids", "logprobs", "routed_experts"):
                    self.assertEqual(line[key], found[1][name][key], key)

    def test_wrong_values(self) -> None:
        """Other names, and a type that cannot go with it, are refused by the option's name."""
        model = str(CHECKPOINTS / "llama_tied")
        for options, words in (
            (("--activation-dtype", "float16"), "--activation-dtype is 'float16'"),
            *(((*profile_options(name), "--dtype", "float16"), f"--activation-dtype '{name}'") for name in PROFILES),
        ):
            result = self.generate(model, [*PROMPTS], *options)
            self.assertEqual(result.code, 2, result.stderr)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
