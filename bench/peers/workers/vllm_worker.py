"""Runs vLLM's CPU build: vllm_worker.py MODEL DTYPE EAGER."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from serve import random_prompts, serve
from vllm import LLM, SamplingParams


def load() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Loads the model; returns what runs one request."""
    folder, dtype, eager = sys.argv[1], sys.argv[2], sys.argv[3] == "eager"
    llm = LLM(
        model=folder,
        dtype=dtype,
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        enforce_eager=eager,
        max_model_len=2304,
        max_num_seqs=64,
    )
    vocab_size = llm.llm_engine.model_config.get_vocab_size()

    def generate(prompts: list[list[int]], new: int) -> float:
        params = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        return time.perf_counter() - start

    def run(request: dict[str, Any]) -> dict[str, Any]:
        whole = generate(random_prompts(request, vocab_size), request["new"])
        if request["new"] == 1:
            return {"whole": whole}
        # The engine does not say when the prompts were done: others of the same lengths tell.
        other = random_prompts({**request, "seed": request["seed"] + 1_000_003}, vocab_size)
        prefill = generate(other, 1)
        return {"prefill": prefill, "decode": whole - prefill if whole > prefill else None, "whole": whole}

    return run


if __name__ == "__main__":
    serve(load)
