"""Large random checkpoints, for measuring speed; never committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from models import safetensors_file
from models.expert_recipes import QWEN3_MOE
from models.folder import write_json
from models.latent_recipes import DEEPSEEK
from models.random_weights import random_bfloat16
from models.recipe import LLAMA, Recipe
from models.safetensors_file import StoredTensor
from models.tensor_shapes import Shapes, checkpoint_shapes
from models.test_tokenizer import write_test_tokenizer

LARGE_RECIPES: dict[str, Recipe] = {
    "deepseek_v3_700m": Recipe(
        "0.67 billion parameters of which a token uses 0.23, latent attention with the sizes of V3 for 16 heads, in"
        " bfloat16, for measuring speed (1.3 GB)",
        DEEPSEEK
        | {
            "vocab_size": 32000,
            "hidden_size": 1024,
            "intermediate_size": 2560,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "q_lora_rank": 512,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "rope_scaling": None,
            "max_position_embeddings": 32768,
            "moe_intermediate_size": 320,
            "n_routed_experts": 32,
            "n_shared_experts": 1,
            "bos_token_id": 270,
            "eos_token_id": 271,
        },
        "BF16",
        seed=30,
        tokenizer=True,
    ),
    "llama_1b": Recipe(
        "1.1 billion parameters in bfloat16, for measuring speed (2.2 GB)",
        LLAMA
        | {
            "vocab_size": 32000,
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_hidden_layers": 22,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "max_position_embeddings": 32768,
            "bos_token_id": 270,
            "eos_token_id": 271,
        },
        "BF16",
        seed=12,
        tokenizer=True,
    ),
    "qwen3_moe_1b": Recipe(
        "1.1 billion parameters of which a token uses 0.3, in bfloat16, for measuring speed (2.1 GB)",
        QWEN3_MOE
        | {
            "vocab_size": 32000,
            "hidden_size": 1024,
            "intermediate_size": 2560,
            "num_hidden_layers": 20,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "max_position_embeddings": 32768,
            "mlp_only_layers": [],
            "moe_intermediate_size": 320,
            "num_experts": 48,
            "num_experts_per_tok": 8,
            "bos_token_id": 270,
            "eos_token_id": 271,
        },
        "BF16",
        seed=24,
        tokenizer=True,
    ),
}


def parameters(recipe: Recipe) -> int:
    """How many numbers the checkpoint holds."""
    total = 0
    for shape in checkpoint_shapes(recipe.config).values():
        count = 1
        for size in shape:
            count *= size
        total += count
    return total


def drawn(recipe: Recipe, shapes: Shapes) -> Iterator[StoredTensor]:
    """The tensors one after the other, in the order of `shapes`."""
    for name, shape in shapes.items():
        yield StoredTensor("BF16", random_bfloat16(recipe.seed, name, shape))


def write_large(folder: Path, recipe: Recipe) -> None:
    """Writes the checkpoint to `folder`, the weights last and under their name only when complete.

    One tensor at a time is in memory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", recipe.config | {"torch_dtype": "bfloat16"})
    if recipe.tokenizer:
        write_test_tokenizer(folder)
    shapes = dict(sorted(checkpoint_shapes(recipe.config).items()))
    unfinished = folder / "model.safetensors.part"
    headers = {name: ("BF16", shape) for name, shape in shapes.items()}
    safetensors_file.write_streaming(unfinished, headers, drawn(recipe, shapes))
    unfinished.replace(folder / "model.safetensors")
