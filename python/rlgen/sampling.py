"""How a completion is sampled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Literal

from rlgen.errors import BadInputError

LogprobsMode = Literal["processed", "tempered", "raw", "processed_logprobs", "raw_logprobs"]


class RequestOutputKind(Enum):
    """What a stream of `AsyncLLM.generate` yields."""

    CUMULATIVE = 0
    """Everything so far, each time."""
    DELTA = 1
    """What is new, each time."""
    FINAL_ONLY = 2
    """The whole, once, when the last sample has ended."""


@dataclass(slots=True, kw_only=True)
class SamplingParams:
    """Everything that decides how one prompt is sampled. Names and defaults are vLLM's.

    Two things differ from vLLM: a model's `generation_config.json` is never applied, and
    log-probabilities are those of the distribution that the token was drawn from (`processed`) unless
    `logprobs_mode` says otherwise. A value that cannot be is a `BadInputError` (a `ValueError`) that names
    the field when the request is made.

    n: samples of each prompt.
    temperature: 0 is greedy (largest logit, lowest id on a tie).
    top_p: in (0, 1]. top_k: 0 or -1 for off. min_p: in [0, 1].
    presence_penalty, frequency_penalty: over the output, in [-2, 2].
    repetition_penalty: over prompt and output, above 0.
    seed: 0 or more; one is drawn and returned with the output where it is None.
    stop: strings that end a sample; stop_token_ids: ids that do. Token ids are never cut.
    max_tokens: None for as many as the context holds. min_tokens: no stop counts before them.
    logprobs: that many best alternatives per token beside the token drawn; None for none. The
        log-probability of the drawn token itself is always there (`CompletionOutput.token_logprobs`).
    prompt_logprobs: the same over the prompt, always in the mode `raw`.
    logprobs_mode: `processed` (after every filter, renormalised), `tempered` (logits over temperature) or
        `raw` (logits as they are); None for what the `LLM` was made with.
    routed_experts_prompt_start: where the engine records routes, those of earlier tokens are not
        returned; at most the length of the prompt.
    output_prefix_len: that many trailing ids of the prompt are earlier output; the same seed goes on with
        the same draws.
    detokenize: False leaves `text` empty.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    bad_words: Sequence[str] | None = None
    allowed_token_ids: Sequence[int] | None = None
    logit_bias: Mapping[int, float] | None = None
    logprobs_mode: LogprobsMode | None = None
    bad_words_ids: Sequence[Sequence[int]] | None = None
    output_prefix_len: int = 0
    routed_experts_prompt_start: int = 0

    def to_json(self, logprobs_mode: LogprobsMode = "processed") -> str:
        """The parameters as the engine reads them; `logprobs_mode` holds where none was set."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in _PYTHON_ONLY
        }
        values["logprobs"] = self.logprobs or 0
        values["logprobs_mode"] = self.logprobs_mode or logprobs_mode
        if self.logit_bias is not None:
            values["logit_bias"] = {str(token): bias for token, bias in self.logit_bias.items()}
        for name, value in values.items():
            if isinstance(value, Sequence) and not isinstance(value, str):
                values[name] = list(value)
        try:
            return json.dumps(values, allow_nan=False, default=_plain)
        except (TypeError, ValueError) as error:
            raise BadInputError(f"sampling parameters {values}: {error}") from error


_PYTHON_ONLY = frozenset({"detokenize", "output_kind"})


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} ({type(value).__name__}) is no number, text or list")
