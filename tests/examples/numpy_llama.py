"""A Llama whose head learns, in numpy: a trainer for tests that have no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HEAD = "lm_head.weight"


class HeadTrainer:
    """Learns the head of a checkpoint by Adam; the layers stay as they are. An `asynchronous.Trainer`.

    All arithmetic is float64, so its log-probabilities are a reference for those of an engine.
    """

    def __init__(self, folder: Path, tensors: dict[str, Any], learning_rate: float) -> None:
        self._config = json.loads((folder / "config.json").read_text())
        self._tensors = dict(tensors)
        self._wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self._rate = learning_rate
        self._mean, self._square, self._steps = 0.0, 0.0, 0

    def logprobs(self, samples: Sequence[Any]) -> list[list[float]]:
        """Log-probabilities of the samples' tokens under the present weights."""
        found = []
        for sample in samples:
            values = log_softmax(self._hidden(sample) @ self._wide[HEAD].T)
            found.append(values[np.arange(len(sample.token_ids)), sample.token_ids].tolist())
        return found

    def step(self, samples: Sequence[Any], pulls: Sequence[Sequence[float]]) -> None:
        """One step of Adam up the sum of pull x log-probability."""
        gradient = np.zeros_like(self._wide[HEAD])
        for sample, row in zip(samples, pulls, strict=True):
            hidden = self._hidden(sample)
            rise = -np.exp(log_softmax(hidden @ self._wide[HEAD].T))
            rise[np.arange(len(sample.token_ids)), sample.token_ids] += 1.0
            gradient += (rise * np.array(row)[:, None]).T @ hidden
        self._steps += 1
        self._mean = 0.9 * self._mean + 0.1 * gradient
        self._square = 0.999 * self._square + 0.001 * gradient**2
        mean, square = self._mean / (1 - 0.9**self._steps), self._square / (1 - 0.999**self._steps)
        self._set_head(self._wide[HEAD] + self._rate * mean / (np.sqrt(square) + 1e-8))

    def weights(self) -> dict[str, Any]:
        """Every tensor by its Hugging Face name, of the types of the checkpoint."""
        return dict(self._tensors)

    def _set_head(self, head: Any) -> None:
        """Learns on from what an engine can hold."""
        self._tensors[HEAD] = head.astype(self._tensors[HEAD].dtype)
        self._wide[HEAD] = self._tensors[HEAD].astype(np.float64)

    def _hidden(self, sample: Any) -> Any:
        """[tokens, width]: what the head reads to draw each token of the completion."""
        ids = sample.prompt_token_ids + sample.token_ids
        states = self._wide["model.embed_tokens.weight"][ids[:-1]]
        for layer in range(self._config["num_hidden_layers"]):
            states = states + self._attention(layer, self._norm(states, f"model.layers.{layer}.input_layernorm"))
            states = states + self._mlp(layer, self._norm(states, f"model.layers.{layer}.post_attention_layernorm"))
        return self._norm(states[len(sample.prompt_token_ids) - 1 :], "model.norm")

    def _norm(self, states: Any, name: str) -> Any:
        mean = (states**2).mean(axis=-1, keepdims=True) + self._config["rms_norm_eps"]
        return states / np.sqrt(mean) * self._wide[f"{name}.weight"]

    def _attention(self, layer: int, states: Any) -> Any:
        """[tokens, width]: causal attention with grouped heads."""
        heads, groups, size = (self._config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        name = f"model.layers.{layer}.self_attn"

        def project(part: str, count: int) -> Any:
            return (states @ self._wide[f"{name}.{part}.weight"].T).reshape(-1, count, size).swapaxes(0, 1)

        query = self._turn(project("q_proj", heads))
        key, value = (np.repeat(part, heads // groups, axis=0) for part in (
            self._turn(project("k_proj", groups)), project("v_proj", groups)))
        scores = query @ key.swapaxes(1, 2) / np.sqrt(size)
        later = np.triu(np.ones(scores.shape[1:], bool), 1)
        mixed = np.exp(log_softmax(np.where(later, -np.inf, scores))) @ value
        return mixed.swapaxes(0, 1).reshape(-1, heads * size) @ self._wide[f"{name}.o_proj.weight"].T

    def _turn(self, heads: Any) -> Any:
        """Rotary positions on [heads, tokens, size], the halves of a head as pairs."""
        half = heads.shape[-1] // 2
        rates = self._config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(heads.shape[1])[:, None] * rates
        low, high = heads[..., :half], heads[..., half:]
        cosine, sine = np.cos(angles), np.sin(angles)
        return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)

    def _mlp(self, layer: int, states: Any) -> Any:
        gate, up, down = (
            self._wide[f"model.layers.{layer}.mlp.{part}_proj.weight"].T for part in ("gate", "up", "down")
        )
        opened = states @ gate
        return (opened / (1 + np.exp(-opened)) * (states @ up)) @ down


def log_softmax(values: Any) -> Any:
    """Along the last axis."""
    shifted = values - values.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
