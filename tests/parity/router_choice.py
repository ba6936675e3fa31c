"""What the routers of Transformers choose experts by, worked out again in double."""

from __future__ import annotations

import torch


def lead_of(values: torch.Tensor, count: int) -> torch.Tensor:
    """By how much each of the `count` largest of a row leads over the next one, the smallest of it: [rows]."""
    best = torch.topk(values, min(count + 1, values.shape[-1])).values
    return (best[:, :-1] - best[:, 1:]).min(-1).values if best.shape[-1] > 1 else best[:, 0]


def close_groups(router: torch.nn.Module, values: torch.Tensor, best: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of experts with -inf in the groups that cannot be chosen from, and the lead of those that can.

    Args:
        router: the module, with num_group and topk_group.
        values: [rows, experts].
        best: how many of a group's experts its worth is the sum of.
    """
    grouped = values.view(values.shape[0], router.num_group, -1)
    worth = grouped.topk(best, dim=-1).values.sum(-1)
    closed = torch.ones_like(worth, dtype=torch.bool)
    closed.scatter_(1, worth.topk(router.topk_group, dim=-1).indices, False)
    open_values = grouped.masked_fill(closed.unsqueeze(-1), -torch.inf).flatten(1)
    all_open = router.topk_group == router.num_group
    return open_values, torch.full_like(worth[:, 0], torch.inf) if all_open else lead_of(worth, router.topk_group)


def choice_of(router: torch.nn.Module, scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What experts are chosen by, and the smallest lead of a choice over the next best one.

    Args:
        router: the module.
        scores: its product, [rows, experts].
        count: experts chosen for each row.

    Returns:
        [rows, experts] in double, and [rows].
    """
    bias = getattr(router, "e_score_correction_bias", None)
    if bias is not None:
        values, lead = close_groups(router, torch.sigmoid(scores.double()) + bias.double(), 2)
    elif getattr(router, "topk_method", "greedy") == "group_limited_greedy":
        values, lead = close_groups(router, torch.softmax(scores.double(), -1), 1)
    else:
        values = torch.softmax(scores.double(), -1)
        return values, lead_of(values, count)
    return values, torch.minimum(lead, lead_of(values, count))
