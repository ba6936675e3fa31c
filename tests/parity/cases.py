"""The parity cases: which checkpoint, under which context length, with which sequences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "tests" / "fixtures" / "checkpoints"
FIXTURES = ROOT / "tests" / "fixtures" / "parity"
DEMO_MODEL = "SmolLM2-135M-Instruct"


@dataclass(frozen=True)
class Case:
    """One fixture file.

    Attributes:
        checkpoint: folder name under tests/fixtures/checkpoints, or the demo model's under models.
        max_model_len: the context length in force.
        lengths: token counts of the sequences; ignored where `texts` are given.
        greedy_prompt_len: ids of each sequence that the greedy continuation starts from.
        greedy_len: greedy tokens wanted.
        texts: texts to tokenize instead of random ids.
    """

    checkpoint: str
    max_model_len: int = 128
    lengths: tuple[int, ...] = (34, 49, 112)
    greedy_prompt_len: int = 33
    greedy_len: int = 64
    texts: tuple[str, ...] = ()

    def folder(self) -> Path:
        """Where the checkpoint lies."""
        return ROOT / "models" / DEMO_MODEL if self.checkpoint == DEMO_MODEL else CHECKPOINTS / self.checkpoint


def scaled_by_length(checkpoint: str, max_model_len: int, greedy_prompt_len: int) -> Case:
    """A case whose rotary scaling follows the context: every sequence fills it exactly."""
    room = max_model_len - greedy_prompt_len
    return Case(checkpoint, max_model_len, (max_model_len, max_model_len), greedy_prompt_len, min(room, 64))


DEMO_TEXTS = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "The river begins as a thin line of water between two stones, high above the last trees. Lower down it takes in"
    " one brook after another, and by the time it reaches the valley it is wide enough to carry boats. In the town"
    " people say that the water remembers every mountain it has seen, and that in a quiet night",
    "def count_words(path):\n    counts = {}\n    with open(path) as file:\n        for line in file:\n"
    "            for word in line.split():\n                counts[word] = counts.get(word, 0) + 1\n"
    "    return counts\n\n\ndef most_common(counts, limit):\n",
)

WHOLE_CONTEXT = (
    "deepseek_v2",
    "deepseek_v2_lite",
    "deepseek_v3",
    "deepseek_v3_plain",
    "gpt_oss",
    "gpt_oss_plain",
    "llama",
    "llama_tied",
    "llama_bias",
    "llama_fp16",
    "llama_sharded",
    "llama_text",
    "llama_rope_linear",
    "llama_rope_llama3",
    "llama_rope_yarn",
    "llama_rope_yarn_mscale",
    "mistral",
    "mixtral",
    "mixtral_grouped",
    "mixtral_window",
    "olmoe",
    "olmoe_clip",
    "qwen2",
    "qwen2_moe",
    "qwen2_moe_window",
    "qwen2_window",
    "qwen3",
    "qwen3_moe",
    "qwen3_moe_grouped",
    "qwen3_moe_step",
    "smollm3",
)

CASES: dict[str, Case] = {name: Case(name) for name in WHOLE_CONTEXT} | {
    "llama_rope_dynamic": scaled_by_length("llama_rope_dynamic", 112, 40),
    "llama_rope_dynamic_original": scaled_by_length("llama_rope_dynamic", 64, 16),
    "llama_rope_longrope": scaled_by_length("llama_rope_longrope", 128, 40),
    "llama_rope_longrope_original": scaled_by_length("llama_rope_longrope", 32, 8),
    "llama_rope_longrope_one_more": scaled_by_length("llama_rope_longrope", 33, 8),
    "smollm2": Case(DEMO_MODEL, max_model_len=8192, greedy_len=48, texts=DEMO_TEXTS),
}
