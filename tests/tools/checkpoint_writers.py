"""Large checkpoints and their GGUF form, on small ones; needs the packages of tools/requirements.txt."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tools"))

from models import random_weights, safetensors_file
from models.gguf_llama import halves_from_pairs, hugging_face_name
from models.large_checkpoint import LARGE_RECIPES, parameters, write_large
from models.numbers import from_bfloat16_bits
from models.tensor_shapes import checkpoint_shapes
from peers import gguf_file

RECIPE = LARGE_RECIPES["llama_1b"]
SMALL = dataclasses.replace(
    RECIPE,
    config=RECIPE.config
    | {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
)
MOE_RECIPE = LARGE_RECIPES["qwen3_moe_1b"]
SMALL_MOE = dataclasses.replace(
    MOE_RECIPE,
    config=MOE_RECIPE.config
    | {"vocab_size": 300, "hidden_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 12, "num_experts_per_tok": 3},
)


class Large(unittest.TestCase):
    """write_large and the conversion of what it writes."""

    def setUp(self) -> None:
        """A folder."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_the_recipe_has_a_billion_parameters(self) -> None:
        """Counted from its shapes."""
        self.assertGreater(parameters(RECIPE), 1.0e9)
        self.assertLess(parameters(RECIPE), 1.2e9)

    def test_written_in_pieces(self) -> None:
        """Every tensor is there, scaled as in the tiny ones; the pieces leave no mark."""
        write_large(self.folder / "whole", SMALL)
        with mock.patch.object(random_weights, "PIECE_ELEMENTS", 1000):
            write_large(self.folder / "pieces", SMALL)
        weights = "model.safetensors"
        self.assertEqual(
            (self.folder / "whole" / weights).read_bytes(), (self.folder / "pieces" / weights).read_bytes()
        )
        self.assertEqual(list(self.folder.glob("*/*.part")), [])
        tensors = safetensors_file.read(self.folder / "whole" / weights)
        shapes = checkpoint_shapes(SMALL.config)
        self.assertEqual({name: tensor.data.shape for name, tensor in tensors.items()}, shapes)
        for name in ("model.embed_tokens.weight", "model.layers.1.self_attn.q_proj.weight", "model.norm.weight"):
            expected = random_weights.random_tensor(SMALL.seed, name, shapes[name]).std()
            self.assertAlmostEqual(from_bfloat16_bits(tensors[name].data).std() / expected, 1.0, delta=0.4, msg=name)
        config = json.loads((self.folder / "whole" / "config.json").read_text())
        self.assertEqual(config["torch_dtype"], "bfloat16")
        self.assertTrue((self.folder / "whole" / "tokenizer.json").is_file())

    def test_gguf(self) -> None:
        """The GGUF file holds the same numbers, query and key rows in its own order."""
        write_large(self.folder, SMALL)
        path = self.folder / "small.gguf"
        gguf_file.convert(self.folder, path)
        reader = GGUFReader(path)
        self.assertEqual(reader.fields["llama.attention.head_count_kv"].contents(), 2)
        self.assertEqual(reader.fields["llama.vocab_size"].contents(), 300)
        tensors = safetensors_file.read(self.folder / "model.safetensors")
        self.assertEqual({hugging_face_name(tensor.name) for tensor in reader.tensors}, set(tensors))
        for tensor in reader.tensors:
            name = hugging_face_name(tensor.name)
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            values = values.reshape(tuple(reversed(tensor.shape)))
            if "q_proj" in name or "k_proj" in name:
                values = halves_from_pairs(values, 4 if "q_proj" in name else 2)
            np.testing.assert_array_equal(values, from_bfloat16_bits(tensors[name].data), err_msg=name)

    def test_gguf_with_experts(self) -> None:
        """One tensor for all experts of a layer, in the order of their numbers; rows as they are."""
        write_large(self.folder, SMALL_MOE)
        path = self.folder / "small.gguf"
        gguf_file.convert(self.folder, path)
        reader = GGUFReader(path)
        self.assertEqual(reader.fields["qwen3moe.expert_count"].contents(), 12)
        self.assertEqual(reader.fields["qwen3moe.expert_used_count"].contents(), 3)
        self.assertEqual(reader.fields["qwen3moe.expert_feed_forward_length"].contents(), 32)
        tensors = safetensors_file.read(self.folder / "model.safetensors")
        sources = gguf_file.sources_by_name(tensors)
        self.assertEqual({tensor.name for tensor in reader.tensors}, set(sources))
        self.assertEqual(sorted(name for names in sources.values() for name in names), sorted(tensors))
        self.assertEqual(
            sources["blk.1.ffn_down_exps.weight"],
            [f"model.layers.1.mlp.experts.{expert}.down_proj.weight" for expert in range(12)],
        )
        for tensor in reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            values = values.reshape(tuple(reversed(tensor.shape)))
            expected = [from_bfloat16_bits(tensors[name].data) for name in sources[tensor.name]]
            expected = np.stack(expected) if len(expected) > 1 else expected[0]
            np.testing.assert_array_equal(values, expected, err_msg=tensor.name)

    def test_gguf_refuses(self) -> None:
        """Other families, scaled positions, and what llama.cpp would compute differently."""
        cases = [
            (SMALL.config | {"model_type": "qwen3"}, "only Llama"),
            (SMALL.config | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "without scaled"),
            (SMALL_MOE.config | {"mlp_only_layers": [1]}, "every layer"),
            (SMALL_MOE.config | {"decoder_sparse_step": 2}, "every layer"),
            (SMALL_MOE.config | {"norm_topk_prob": False}, "normalised"),
            (SMALL_MOE.config | {"attention_bias": True}, "biases"),
        ]
        for config, message in cases:
            (self.folder / "config.json").write_text(json.dumps(config))
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                gguf_file.convert(self.folder, self.folder / "x.gguf")


if __name__ == "__main__":
    unittest.main()
