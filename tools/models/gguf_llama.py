"""Turns a llama-architecture GGUF with a byte-level BPE tokenizer into a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models import safetensors_file
from models.numbers import to_bfloat16_bits
from models.safetensors_file import StoredTensor

CONTROL_TOKEN = 3

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hugging_face_name(gguf_name: str) -> str:
    """Name of a GGUF tensor in a Hugging Face Llama checkpoint; KeyError where it has none."""
    stem, suffix = gguf_name.rsplit(".", 1)
    if stem in TOP_TENSORS:
        return f"{TOP_TENSORS[stem]}.{suffix}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{LAYER_TENSORS[part]}.{suffix}"


def halves_from_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undoes the row order that GGUF gives to query and key projections.

    GGUF interleaves the two rotary halves of a head (row 2i and 2i+1 form a pair); Hugging Face
    keeps them apart (row i and i + head_dim/2 form a pair).

    Args:
        weight: [heads * head_dim, hidden].
        heads: query or key heads.

    Returns:
        The same shape with the rows of each head in Hugging Face's order.
    """
    rows, hidden = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, hidden)
    return pairs.swapaxes(1, 2).reshape(rows, hidden)


class LlamaGguf:
    """A llama GGUF file opened for conversion."""

    def __init__(self, path: Path) -> None:
        self._reader = GGUFReader(path)
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise ValueError(f"{path}: architecture is {architecture!r}, this converter knows 'llama'")

    def field(self, key: str) -> Any:
        """Value of a metadata key; KeyError where the file lacks it."""
        return self._reader.fields[key].contents()

    def write_folder(self, folder: Path) -> list[str]:
        """Writes config, bf16 weights and tokenizer files to `folder`; returns their names."""
        self._write_weights(folder / "model.safetensors")
        self._build_tokenizer().save(str(folder / "tokenizer.json"))
        documents = {
            "config.json": self._config(),
            "generation_config.json": self._generation_config(),
            "special_tokens_map.json": self._special_tokens(),
            "tokenizer_config.json": self._tokenizer_config(),
        }
        for name, document in documents.items():
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        return ["model.safetensors", "tokenizer.json", *documents]

    def _write_weights(self, path: Path) -> None:
        sources = {hugging_face_name(tensor.name): tensor for tensor in self._reader.tensors}
        order = sorted(sources)
        shapes = {name: ("BF16", tuple(int(d) for d in reversed(sources[name].shape))) for name in order}
        safetensors_file.write_streaming(path, shapes, self._converted(order, sources))

    def _converted(self, order: list[str], sources: dict[str, Any]) -> Iterator[StoredTensor]:
        for name in order:
            tensor = sources[name]
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            values = values.reshape(tuple(reversed(tensor.shape)))
            if name.endswith("q_proj.weight"):
                values = halves_from_pairs(values, self.field("llama.attention.head_count"))
            elif name.endswith("k_proj.weight"):
                values = halves_from_pairs(values, self.field("llama.attention.head_count_kv"))
            yield StoredTensor("BF16", to_bfloat16_bits(values))

    def _config(self) -> dict[str, Any]:
        tied = all(tensor.name != "output.weight" for tensor in self._reader.tensors)
        eps = float(np.float32(self.field("llama.attention.layer_norm_rms_epsilon")))
        return {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": self.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.field("tokenizer.ggml.eos_token_id"),
            "head_dim": self.field("llama.rope.dimension_count"),
            "hidden_act": "silu",
            "hidden_size": self.field("llama.embedding_length"),
            "intermediate_size": self.field("llama.feed_forward_length"),
            "max_position_embeddings": self.field("llama.context_length"),
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": self.field("llama.attention.head_count"),
            "num_hidden_layers": self.field("llama.block_count"),
            "num_key_value_heads": self.field("llama.attention.head_count_kv"),
            "pad_token_id": self.field("tokenizer.ggml.padding_token_id"),
            "rms_norm_eps": float(f"{eps:.6g}"),
            "rope_scaling": None,
            "rope_theta": self.field("llama.rope.freq_base"),
            "tie_word_embeddings": tied,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "vocab_size": self.field("llama.vocab_size"),
        }

    def _generation_config(self) -> dict[str, Any]:
        return {
            "bos_token_id": self.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.field("tokenizer.ggml.eos_token_id"),
            "pad_token_id": self.field("tokenizer.ggml.padding_token_id"),
        }

    def _token(self, role: str) -> str:
        return self.field("tokenizer.ggml.tokens")[self.field(f"tokenizer.ggml.{role}_token_id")]

    def _special_tokens(self) -> dict[str, str]:
        return {
            "bos_token": self._token("bos"),
            "eos_token": self._token("eos"),
            "pad_token": self._token("padding"),
            "unk_token": self._token("unknown"),
        }

    def _control_ids(self) -> list[int]:
        types = self.field("tokenizer.ggml.token_type")
        return [index for index, kind in enumerate(types) if kind == CONTROL_TOKEN]

    def _tokenizer_config(self) -> dict[str, Any]:
        tokens = self.field("tokenizer.ggml.tokens")
        flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        return {
            "add_prefix_space": self.field("tokenizer.ggml.add_space_prefix"),
            "added_tokens_decoder": {str(i): {"content": tokens[i], **flags} for i in self._control_ids()},
            **self._special_tokens(),
            "chat_template": self.field("tokenizer.chat_template"),
            "clean_up_tokenization_spaces": False,
            "model_max_length": self.field("llama.context_length"),
            "tokenizer_class": "PreTrainedTokenizerFast",
        }

    def _build_tokenizer(self) -> Tokenizer:
        kind, scheme = self.field("tokenizer.ggml.model"), self.field("tokenizer.ggml.pre")
        if (kind, scheme) != ("gpt2", "smollm"):
            raise ValueError(f"tokenizer is {kind}/{scheme}, this converter knows gpt2/smollm")
        tokens = self.field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in self.field("tokenizer.ggml.merges")]
        vocabulary = {token: index for index, token in enumerate(tokens)}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
        tokenizer.add_special_tokens(
            [AddedToken(tokens[i], special=True, normalized=False) for i in self._control_ids()]
        )
        return tokenizer
