"""rlgen diff: the first place where two runs part, and rollout files compared."""

from __future__ import annotations

import json
import shutil
import struct
import unittest
from pathlib import Path
from typing import Any

from harness import CHECKPOINTS, CommandLineTest, Result

IDS = [(7 * i + 3) % 150 for i in range(50)]
IDS_TEXT = ",".join(map(str, IDS))
PARTS = ("input_norm", "qkv", "attention", "post_attention", "output")


def names(layers: int) -> list[str]:
    """The places of a model in the order of computation."""
    inner = [f"layers.{layer}.{part}" for layer in range(layers) for part in PARTS]
    return ["embedding", *inner, "final_norm", "logits"]


def change_weights(folder: Path, tensor: str, first: int = 0, count: int = 1) -> None:
    """Sets elements of a tensor of a folder's model.safetensors to 1."""
    path = folder / "model.safetensors"
    blob = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", blob)
    entry = json.loads(blob[8 : 8 + length])[tensor]
    one = {"F32": struct.pack("<f", 1.0), "BF16": b"\x80\x3f", "F16": b"\x00\x3c"}[entry["dtype"]]
    begin = 8 + length + entry["data_offsets"][0] + first * len(one)
    blob[begin : begin + count * len(one)] = one * count
    path.write_bytes(blob)


class Runs(CommandLineTest):
    """Two runs of small checkpoints."""

    def diff(self, *options: object, model: str = "llama_text") -> Result:
        """Runs the command on a fixture checkpoint."""
        return self.run_rlgen("diff", "--model", CHECKPOINTS / model, "--threads", 1, *options)

    def report(self, code: int, *options: object, model: str = "llama_text") -> dict[str, Any]:
        """The JSON report of a run that has to end with `code`."""
        result = self.diff(*options, "--json", model=model)
        self.assertEqual(result.code, code, result.stderr + result.stdout)
        return json.loads(result.stdout)

    def changed(self, tensor: str, first: int = 0, count: int = 1, model: str = "llama_text") -> Path:
        """A copy of a fixture checkpoint with some weights set to 1."""
        folder = self.folder / f"changed-{tensor}"
        shutil.copytree(CHECKPOINTS / model, folder)
        change_weights(folder, tensor, first, count)
        return folder

    def test_equal_however_it_runs(self) -> None:
        """Instruction set, threads, chunks, blocks: no bit of any place differs."""
        for model in ("llama_text", "qwen3", "mistral", "smollm3", "qwen2_moe", "olmoe_clip", "gpt_oss"):
            with self.subTest(model=model):
                report = self.report(
                    0,
                    *("--prompt-token-ids", IDS_TEXT, "--left", "isa=scalar,max-num-batched-tokens=7"),
                    *("--right", "threads=2,block-size=32"),
                    model=model,
                )
                self.assertTrue(report["equal"])
                self.assertIsNone(report["first"])
                places = report["places"]
                layers = (len(places) - 3) // len(PARTS)
                self.assertGreaterEqual(layers, 2)
                self.assertEqual([place["place"] for place in places], names(layers))
                self.assertEqual({place["rows"] for place in places}, {len(IDS)})
                self.assertEqual(report["rows_one_sided"], 0)

    def test_a_text(self) -> None:
        """Is tokenized as elsewhere."""
        self.assertTrue(self.report(0, "--prompt", "hello there", "--right", "isa=scalar")["equal"])

    def test_equal_token_by_token(self) -> None:
        """Decode steps against one prefill; the text report says so."""
        result = self.diff("--prompt-token-ids", IDS_TEXT, "--right", "max-num-batched-tokens=1")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("all bits are equal", result.stdout)

    def test_equal_in_company_and_out_of_the_cache(self) -> None:
        """Lines alone or together, and positions that come after cached ones."""
        source = self.folder / "lines.jsonl"
        lines = [{"prompt_token_ids": IDS[: 20 + i], "token_ids": IDS[:i]} for i in range(6)]
        source.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"error": {"code": "x"}}\n')
        total = sum(20 + 2 * i for i in range(6))
        report = self.report(0, "--input", source, "--left", "max-num-seqs=1", "--right", "max-num-seqs=6")
        self.assertEqual(report["places"][0]["rows"], total)
        cached = self.report(0, "--input", source, "--right", "enable-prefix-caching=true")
        self.assertGreater(cached["rows_one_sided"], 0)
        rows = {place["place"]: place["rows"] for place in cached["places"]}
        self.assertEqual(rows["logits"], len(lines))
        self.assertTrue(0 < rows["embedding"] < total)

    def test_one_changed_weight_is_found(self) -> None:
        """The layer and the place that first sees it, at the first position."""
        layer = "model.layers.1"
        expected = {
            f"{layer}.input_layernorm.weight": "layers.1.input_norm",
            f"{layer}.self_attn.k_proj.weight": "layers.1.qkv",
            f"{layer}.self_attn.o_proj.weight": "layers.1.post_attention",
            f"{layer}.mlp.down_proj.weight": "layers.1.output",
            "model.norm.weight": "final_norm",
            "lm_head.weight": "logits",
        }
        for tensor, place in expected.items():
            with self.subTest(tensor=tensor):
                right = f"model={self.changed(tensor)}"
                first = self.report(1, "--prompt-token-ids", IDS_TEXT, "--right", right)["first"]
                self.assertEqual((first["place"], first["sequence"], first["position"]), (place, 0, 0))
                self.assertEqual(first["token_id"], IDS[0])
                self.assertNotEqual(first["first_value"]["left_bits"], first["first_value"]["right_bits"])

    def test_a_changed_value_row_shows_in_its_head(self) -> None:
        """The element is named, and earlier layers are equal in the table."""
        folder = self.changed("model.layers.1.self_attn.q_proj.weight")
        report = self.report(1, "--prompt-token-ids", IDS_TEXT, "--right", f"model={folder}")
        self.assertIn("query head 0", report["first"]["first_value"]["element"])
        different = [place["place"] for place in report["places"] if place["rows_different"]]
        self.assertEqual(different[0], "layers.1.qkv")
        self.assertFalse([name for name in different if name.startswith("layers.0")])

    def test_a_changed_embedding_starts_at_its_token(self) -> None:
        """The first position is that of the token whose row changed."""
        config = json.loads((CHECKPOINTS / "llama_text" / "config.json").read_text())
        hidden = config["hidden_size"]
        folder = self.changed("model.embed_tokens.weight", first=IDS[9] * hidden, count=hidden)
        first = self.report(1, "--prompt-token-ids", IDS_TEXT, "--right", f"model={folder}")["first"]
        self.assertEqual((first["place"], first["position"]), ("embedding", IDS.index(IDS[9])))
        self.assertEqual(first["first_value"]["right"], 1.0)

    def test_types_of_the_cache_and_tolerance(self) -> None:
        """bfloat16 keys first show in the attention; a tolerance above the largest difference lets them pass."""
        options = ("--prompt-token-ids", IDS_TEXT, "--right", "kv-cache-dtype=bfloat16")
        report = self.report(1, *options)
        self.assertEqual(report["first"]["place"], "layers.0.attention")
        self.assertEqual(report["first"]["position"], 0)
        largest = max(place.get("largest_difference", 0) for place in report["places"])
        text = self.diff(*options)
        self.assertEqual(text.code, 1)
        self.assertIn("layers.0.attention", text.stdout)
        self.assertTrue(self.report(0, *options, "--tolerance", largest)["equal"])
        self.assertFalse(self.report(1, *options, "--tolerance", largest / 2)["equal"])

    def test_dump_and_reference(self) -> None:
        """A dump is its own run's equal and another run's reference, with its token ids."""
        dump = self.folder / "left.safetensors"
        options = ("--prompt-token-ids", IDS_TEXT, "--left", "isa=scalar")
        made = self.diff("--prompt-token-ids", IDS_TEXT, "--dump", dump)
        self.assertEqual(made.code, 0, made.stderr)
        self.assert_one_error(self.diff(*options, "--dump", dump), 2, "--dump", "exists")
        self.assertEqual(self.diff(*options, "--dump", dump, "--overwrite").code, 0)
        report = self.report(0, "--reference", dump)
        self.assertEqual(report["places"][0]["rows"], len(IDS))
        folder = self.changed("model.layers.1.mlp.down_proj.weight")
        result = self.run_rlgen("diff", "--model", folder, "--reference", dump)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("sequence 0, position 0 (token 3), layers.1.output", result.stdout)

    def test_a_full_context(self) -> None:
        """The last position of a sequence that leaves no room is not there on either side."""
        report = self.report(0, "--prompt-token-ids", IDS_TEXT, "--max-model-len", 50, "--right", "isa=scalar")
        self.assertEqual({place["rows"] for place in report["places"]}, {len(IDS) - 1})

    def test_a_model_that_makes_nan(self) -> None:
        """A run that ends at a NaN is looked at up to there."""
        options = ("--prompt-token-ids", "1,2,3", "--right", "isa=scalar")
        result = self.diff(*options, model="table_nan")
        self.assertEqual(result.code, 0, result.stderr)
        for side in ("left", "right"):
            self.assertRegex(result.stdout, f"{side}: sequence 0 ended early: .*position 1")

    def test_trouble_is_no_difference(self) -> None:
        """Exit code 2, one line, for what cannot be run or compared."""
        missing = self.folder / "none"
        cases = (
            (("--prompt-token-ids", "1", "--right", f"model={missing}"), ("right", "none")),
            (("--prompt-token-ids", "1,999999", "--right", "isa=scalar"), ("999999",)),
            (("--prompt-token-ids", "1", "--right", f"model={CHECKPOINTS / 'qwen3'}"), ("values",)),
            (("--reference", missing), ("none",)),
            (("--reference", CHECKPOINTS / "llama_text" / "model.safetensors"), ("activations",)),
            (("--input", missing, "--right", "isa=scalar"), ("none",)),
            (("--prompt-token-ids", "1", "--right", "isa=neon8"), ("neon8",)),
        )
        for options, parts in cases:
            with self.subTest(options=options):
                self.assert_one_error(self.diff(*options), 2, *parts)


class RolloutFiles(CommandLineTest):
    """Files that generate and score made."""

    def test_files(self) -> None:
        """Equal, then other seeds, a changed log-probability and a missing line."""
        prompts = [{"id": f"p{i}", "prompt_token_ids": IDS[: i + 1], "max_tokens": 12, "n": 2, "ignore_eos": True} for i in range(4)]
        left = self.generate("llama_text", prompts, "--seed", 1, output="left.jsonl")
        self.generate("llama_text", prompts[::-1], "--seed", 1, output="right.jsonl")
        same = self.run_rlgen("diff", self.folder / "left.jsonl", self.folder / "right.jsonl")
        self.assertEqual(same.code, 0, same.stderr)
        self.assertIn("8 rollouts equal", same.stdout)

        self.generate("llama_text", prompts, "--seed", 2, output="seed.jsonl")
        other = self.run_rlgen("diff", self.folder / "left.jsonl", self.folder / "seed.jsonl")
        self.assertEqual(other.code, 1, other.stderr)
        self.assertRegex(other.stdout, r"\(other [a-z_, ]*seed")

        lines = [dict(line) for line in left.lines[:-1]]
        lines[2]["logprobs"] = [*lines[2]["logprobs"]]
        lines[2]["logprobs"][5] -= 0.25
        changed = self.folder / "changed.jsonl"
        changed.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = self.run_rlgen("diff", self.folder / "left.jsonl", changed, "--json")
        self.assertEqual(result.code, 1, result.stderr)
        report = json.loads(result.stdout)
        found = {(line["id"], line["sample"]): line for line in report["different"]}
        last = left.lines[-1]
        self.assertEqual(found.pop((last["id"], last["sample"]))["kind"], "only_left")
        ((key, logprobs),) = found.items()
        self.assertEqual(key, (lines[2]["id"], lines[2]["sample"]))
        self.assertEqual((logprobs["kind"], logprobs["position"]), ("logprobs", 5))
        self.assertAlmostEqual(logprobs["largest_logprob_difference"], 0.25, places=6)
        self.assertEqual(report["equal_rollouts"], 6)

    def test_files_that_are_none(self) -> None:
        """Exit code 2 with file and line."""
        bad = self.folder / "bad.jsonl"
        bad.write_text('{"id": "a"}\n')
        self.assert_one_error(self.run_rlgen("diff", bad, bad), 2, "bad.jsonl line 1", "prompt_token_ids")


if __name__ == "__main__":
    unittest.main()
