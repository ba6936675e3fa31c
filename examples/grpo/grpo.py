"""The arithmetic of GRPO, without any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Settings:
    """How one step learns. `clip`: the ratio's distance from 1 at which a token stops pulling."""

    group: int = 8
    learning_rate: float = 1e-5
    clip: float = 0.2


@dataclass(frozen=True)
class Sample:
    """One completion as the rollout engine gave it."""

    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    reward: float


def advantages(rewards: Sequence[float], group: int) -> torch.Tensor:
    """[samples]: each reward against the mean of its group, in units of the group's spread."""
    grouped = torch.tensor(rewards, dtype=torch.float32).reshape(-1, group)
    centred = grouped - grouped.mean(dim=1, keepdim=True)
    return (centred / (grouped.std(dim=1, keepdim=True) + 1e-4)).reshape(-1)


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


def rollout_logprobs(samples: Sequence[Sample], mask: torch.Tensor) -> torch.Tensor:
    """[samples, tokens]: the engine's log-probabilities at the places of `mask`, 0 elsewhere."""
    values = torch.zeros(mask.shape)
    values[mask] = torch.tensor([value for sample in samples for value in sample.logprobs])
    return values


def step(model: Any, optimizer: torch.optim.Optimizer, samples: Sequence[Sample], settings: Settings) -> float:
    """One optimiser step on the samples. Returns the KL of trainer against engine, per token (k3 estimate)."""
    values, mask = token_logprobs(model, samples)
    ours = rollout_logprobs(samples, mask)
    ratio = torch.exp(values - ours)
    kl = ((ratio - 1) - (values - ours))[mask].mean().item()
    advantage = advantages([sample.reward for sample in samples], settings.group)[:, None]
    clipped = torch.clamp(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = torch.minimum(ratio * advantage, clipped * advantage)
    loss = -(gain * mask).sum() / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return kl
