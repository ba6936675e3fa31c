"""Hugging Face Transformers as the reference: float32 on the CPU, no key-value cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from router_choice import choice_of

PAD_ID = 0
LENGTH_SCALED = {"dynamic", "longrope"}


def rope_kind(folder: Path) -> str:
    """Kind of rotary scaling that config.json names, "default" where it names none."""
    config = json.loads((folder / "config.json").read_text())
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return scaling.get("rope_type") or scaling.get("type") or "default"


def highest_tokenizer_id(folder: Path) -> int | None:
    """Highest id of tokenizer.json, or None where the folder has no tokenizer."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    return max([*document["model"]["vocab"].values(), *(token["id"] for token in document["added_tokens"])])


class RouterWatch:
    """Takes what the routers of a model choose, layer by layer, while it runs."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._taken: list[tuple[list[list[int]], list[float]]] = []
        names = (".mlp.gate", ".mlp.router")
        self._routers = [module for name, module in model.named_modules() if name.endswith(names)]
        for router in self._routers:
            router.register_forward_hook(self._take)

    def __bool__(self) -> bool:
        return bool(self._routers)

    def _take(self, router: torch.nn.Module, inputs: tuple[torch.Tensor], output: tuple[torch.Tensor, ...]) -> None:
        chosen = output[-1]
        bias = getattr(router, "bias", None)
        scores = torch.nn.functional.linear(inputs[0].reshape(-1, inputs[0].shape[-1]), router.weight, bias)
        values, lead = choice_of(router, scores, chosen.shape[-1])
        # Some routers leave their choice in no order.
        order = values.gather(1, chosen).argsort(dim=-1, descending=True, stable=True)
        chosen = chosen.gather(1, order)
        self._taken.append((chosen.tolist(), [round(value, 9) for value in lead.tolist()]))

    def start(self) -> None:
        """Forgets what was taken."""
        self._taken.clear()

    def routes(self, tokens: int) -> list[list[list[int]]]:
        """Expert ids [tokens, sparse layers, top_k] of the run since start, best first."""
        return [[layer[0][token] for layer in self._taken] for token in range(tokens)]

    def leads(self, tokens: int) -> list[list[float]]:
        """[tokens, sparse layers]: the smallest lead in probability of a chosen expert over the next best one."""
        return [[layer[1][token] for layer in self._taken] for token in range(tokens)]


class Reference:
    """A checkpoint in Transformers.

    Rotary scaling that follows the length of the sequence is held at `max_model_len` by padding
    each sequence on the right up to it; causal attention keeps the padding from mattering
    otherwise. Logits of ids that the tokenizer does not reach are masked.
    """

    def __init__(self, folder: Path, max_model_len: int) -> None:
        torch.set_num_threads(2)
        logging.disable_progress_bar()
        model, report = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            output_loading_info=True,
        )
        if report["missing_keys"] or report["unexpected_keys"]:
            raise ValueError(f"{folder}: config and tensors do not fit: {report}")
        self._model = model.eval()
        self._routers = RouterWatch(self._model)
        self._max_model_len = max_model_len
        self._padded = rope_kind(folder) in LENGTH_SCALED
        self.vocab_size: int = self._model.config.vocab_size
        top = highest_tokenizer_id(folder)
        self.masked_from: int | None = None if top is None or top + 1 >= self.vocab_size else top + 1

    @torch.no_grad()
    def logits(self, token_ids: list[int]) -> torch.Tensor:
        """Logits after each token: float32 [len(token_ids), vocab], masked rows at -inf."""
        padding = [PAD_ID] * (self._max_model_len - len(token_ids)) if self._padded else []
        output = self._model(torch.tensor([token_ids + padding]), use_cache=False).logits[0, : len(token_ids)]
        if self.masked_from is not None:
            output[:, self.masked_from :] = -torch.inf
        return output

    def logprobs(self, token_ids: list[int]) -> list[float]:
        """Log-probability of each token but the first, given those before it."""
        table = torch.log_softmax(self.logits(token_ids)[:-1].double(), dim=-1)
        chosen = table.gather(1, torch.tensor(token_ids[1:]).unsqueeze(1)).squeeze(1)
        return [round(value, 6) for value in chosen.tolist()]

    def routes(self, token_ids: list[int]) -> dict[str, Any]:
        """Experts of each token and the leads they won by, as a fixture has them; empty for a dense model."""
        if not self._routers:
            return {}
        self._routers.start()
        self.logits(token_ids)
        tokens = len(token_ids)
        return {"routes": self._routers.routes(tokens), "route_leads": self._routers.leads(tokens)}

    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        """Continues `prompt` by the best token, `count` times, whatever the end-of-text ids are.

        Returns:
            The new ids, and the smallest lead of a chosen logit over the second best.
        """
        made: list[int] = []
        margin = float("inf")
        for _ in range(count):
            best = torch.topk(self.logits(prompt + made)[-1], 2)
            made.append(int(best.indices[0]))
            margin = min(margin, float(best.values[0] - best.values[1]))
        return made, round(margin, 6)
