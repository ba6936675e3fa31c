"""Runs Hugging Face Transformers: transformers_worker.py MODEL THREADS DTYPE."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from serve import random_prompts, serve
from transformers import AutoModelForCausalLM


def load() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Loads the model; returns what runs one request."""
    folder, threads, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()

    def run(request: dict[str, Any]) -> dict[str, Any]:
        ids = torch.tensor(random_prompts(request, model.config.vocab_size))
        start = time.perf_counter()
        with torch.inference_mode():
            step = model(ids, use_cache=True, logits_to_keep=1)
            token = step.logits[:, -1].argmax(-1, keepdim=True)
            first = time.perf_counter()
            for _ in range(request["new"] - 1):
                step = model(token, past_key_values=step.past_key_values, use_cache=True)
                token = step.logits[:, -1].argmax(-1, keepdim=True)
        end = time.perf_counter()
        return {"prefill": first - start, "decode": end - first, "whole": end - start}

    return run


if __name__ == "__main__":
    serve(load)
