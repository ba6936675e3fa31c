"""GRPO with torch, without any engine: the trainer's own log-probabilities and one clipped step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from samples import Sample, advantages


@dataclass(frozen=True)
class Settings:
    """How one step learns.

    group: samples of one prompt. clip: the ratio's distance from 1 at which a token stops pulling. rows: samples
    whose logits are held at once.
    """

    group: int = 8
    learning_rate: float = 1e-5
    clip: float = 0.2
    rows: int = 32


@dataclass(frozen=True)
class Agreement:
    """The trainer's log-probabilities against the engine's, before a step.

    kl: per token (k3 estimate). difference: the largest of a token.
    """

    kl: float
    difference: float


def token_logprobs(model: Any, samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """[samples, tokens]: the model's own log-probabilities of the completions, and which places hold one."""
    rows = [sample.prompt_token_ids + sample.token_ids for sample in samples]
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    attention = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1].float()
    values = F.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    begins = torch.tensor([len(sample.prompt_token_ids) - 1 for sample in samples])[:, None]
    ends = torch.tensor([len(row) - 1 for row in rows])[:, None]
    places = torch.arange(width - 1)[None, :]
    return values, (places >= begins) & (places < ends)


def at_tokens(lists: Sequence[Sequence[float]], mask: torch.Tensor) -> torch.Tensor:
    """[samples, tokens]: a list for each sample at its places of `mask`, 0 elsewhere."""
    values = torch.zeros(mask.shape)
    values[mask] = torch.tensor([value for row in lists for value in row])
    return values


def step(model: Any, optimizer: torch.optim.Optimizer, samples: Sequence[Sample], settings: Settings) -> Agreement:
    """One optimiser step on the samples."""
    tokens = sum(len(sample.token_ids) for sample in samples)
    gains = torch.tensor(advantages(samples, settings.group))[:, None]
    kl, difference = 0.0, 0.0
    optimizer.zero_grad()
    for begin in range(0, len(samples), settings.rows):
        rows = slice(begin, begin + settings.rows)
        values, mask = token_logprobs(model, samples[rows])
        change = (values - at_tokens([sample.logprobs for sample in samples[rows]], mask)) * mask
        apart = change.detach().double()
        ratio = torch.exp(change)
        clipped = torch.clamp(ratio, 1 - settings.clip, 1 + settings.clip)
        gain = torch.minimum(ratio * gains[rows], clipped * gains[rows])
        (-(gain * mask).sum() / tokens).backward()
        kl += (torch.expm1(apart) - apart).sum().item() / tokens
        difference = max(difference, apart.abs().max().item())
    apply(model, optimizer)
    return Agreement(kl, difference)


def apply(model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Changes the weights by the gradients that were gathered, no longer than 1 together."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


class TorchTrainer:
    """A model of transformers as `asynchronous.Trainer` wants it."""

    def __init__(self, model: Any, learning_rate: float) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)

    def logprobs(self, samples: Sequence[Sample]) -> list[list[float]]:
        """Log-probabilities of the samples' tokens under the present weights."""
        with torch.no_grad():
            values, mask = token_logprobs(self.model, samples)
        return [row[places].tolist() for row, places in zip(values, mask, strict=True)]

    def step(self, samples: Sequence[Sample], pulls: Sequence[Sequence[float]]) -> None:
        """One optimiser step up the sum of pull x log-probability over all tokens."""
        values, mask = token_logprobs(self.model, samples)
        self.optimizer.zero_grad()
        (-(values * at_tokens(pulls, mask)).sum()).backward()
        apply(self.model, self.optimizer)

    def weights(self) -> dict[str, Any]:
        """Every tensor by its Hugging Face name."""
        return dict(self.model.state_dict())
