"""Rollouts for reinforcement learning of language models, with exact log-probabilities.

`LLM` rolls out lists of prompts, `AsyncLLM` streams them; `read_rollouts` reads the files that the command
line `rlgen` writes. The package needs no other package. What needs the native engine is loaded when it is
first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlgen.errors import RlgenError
from rlgen.rollouts import Rollout, RolloutError, RolloutFormatError, VersionSpan, read_rollouts

if TYPE_CHECKING:
    from rlgen.async_llm import AsyncLLM
    from rlgen.futures import wait
    from rlgen.llm import LLM
    from rlgen.outputs import CompletionOutput, Logprob, RequestOutput
    from rlgen.sampling import RequestOutputKind, SamplingParams

__all__ = [
    "LLM",
    "AsyncLLM",
    "CompletionOutput",
    "Logprob",
    "RequestOutput",
    "RequestOutputKind",
    "RlgenError",
    "Rollout",
    "RolloutError",
    "RolloutFormatError",
    "SamplingParams",
    "VersionSpan",
    "__version__",
    "read_rollouts",
    "wait",
]
__version__ = "0.1.0"

_WHERE = {
    "LLM": "rlgen.llm",
    "AsyncLLM": "rlgen.async_llm",
    "CompletionOutput": "rlgen.outputs",
    "Logprob": "rlgen.outputs",
    "RequestOutput": "rlgen.outputs",
    "RequestOutputKind": "rlgen.sampling",
    "SamplingParams": "rlgen.sampling",
    "wait": "rlgen.futures",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rlgen' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
