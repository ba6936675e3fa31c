"""What LLM and AsyncLLM share: one loaded model and the way of requests in and out of it."""

from __future__ import annotations

import importlib.util
import json
import logging
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, Self

from rlgen import _native
from rlgen.errors import BadInputError
from rlgen.outputs import CompletionOutput, RequestOutput, completion_of, prompt_logprobs_of
from rlgen.prompts import Prompt, PromptWords, to_ids, to_routes, to_words
from rlgen.sampling import LogprobsMode, SamplingParams

_log = logging.getLogger("rlgen")
RoutedExpertsLayers = Literal["moe", "all"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is loaded and run. None leaves the choice to the machine and the model."""

    dtype: str = "auto"
    activation_dtype: str = "float32"
    kv_cache_dtype: str = "auto"
    kv_cache_memory_bytes: int | None = None
    kv_cache_memory_fraction: float = 0.5
    block_size: int = 16
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    enable_return_routed_experts: bool = False
    routed_experts_layers: RoutedExpertsLayers = "moe"
    num_threads: int | None = None
    isa: str = "auto"
    data_parallel_size: int = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that the engine found good."""

    native: _native.Request
    request_id: str
    words: PromptWords
    params: SamplingParams
    sampling: dict[str, Any]


class Engine:
    """A loaded model. Thread-safe; closed by `shutdown`, at the latest when the interpreter ends."""

    def __init__(self, model: str | PathLike[str], options: EngineOptions, logprobs_mode: LogprobsMode) -> None:
        for name in ("kv_cache_memory_bytes", "max_model_len", "num_threads"):
            if getattr(options, name) == 0:
                raise BadInputError(f"{name} is 0; leave it None to let rlgen choose")
        if options.enable_return_routed_experts and importlib.util.find_spec("numpy") is None:
            raise BadInputError("enable_return_routed_experts needs numpy, which is not installed")
        native = _native.Engine(
            model=fspath(model),
            dtype=options.dtype,
            activation_dtype=options.activation_dtype,
            kv_cache_dtype=options.kv_cache_dtype,
            isa=options.isa,
            kv_cache_memory_bytes=options.kv_cache_memory_bytes or 0,
            kv_cache_memory_fraction=options.kv_cache_memory_fraction,
            block_size=options.block_size,
            max_num_seqs=options.max_num_seqs,
            max_num_batched_tokens=options.max_num_batched_tokens,
            max_model_len=options.max_model_len or 0,
            enable_prefix_caching=options.enable_prefix_caching,
            enable_return_routed_experts=options.enable_return_routed_experts,
            routed_experts_layers=options.routed_experts_layers,
            num_threads=options.num_threads or 0,
            shards=options.data_parallel_size,
        )
        self._take(native, logprobs_mode)

    @classmethod
    def adopt(cls, native: _native.Engine) -> Self:
        """One over an engine that was started already."""
        engine = cls.__new__(cls)
        engine._take(native, "processed")
        return engine

    def _take(self, native: _native.Engine, logprobs_mode: LogprobsMode) -> None:
        self.native = native
        self.info = native.info()
        self.logprobs_mode = logprobs_mode
        self._token_texts: dict[int, str | None] = {}
        self.close = weakref.finalize(self, native.shutdown)

    def prepare(
        self,
        prompt: Prompt,
        params: SamplingParams,
        request_id: str,
        score_token_ids: Sequence[int] | None = None,
        cache_salt: str = "",
        priority: int = 0,
        routed_experts: Any = None,
    ) -> Prepared:
        """Encodes and checks a request. Raises BadInputError, which names the field."""
        words = to_words(prompt)
        native = self.native.request(
            prompt=words.prompt,
            sampling=params.to_json(self.logprobs_mode),
            messages=words.messages,
            tools=words.tools,
            template_kwargs=words.template_kwargs,
            score_token_ids=None if score_token_ids is None else to_ids(score_token_ids),
            request_id=request_id,
            cache_salt=cache_salt,
            priority=priority,
            routed_experts=to_routes(words.routed_experts if routed_experts is None else routed_experts),
        )
        return Prepared(native, request_id, words, params, json.loads(native.sampling))

    def completion(self, prepared: Prepared, rollout: _native.Rollout) -> CompletionOutput:
        """One finished sample of a request."""
        decode = None if prepared.params.logprobs is None else self.token_text
        return completion_of(rollout, prepared.sampling["logprobs_mode"], decode)

    def output(self, prepared: Prepared, rollouts: Sequence[_native.Rollout]) -> RequestOutput:
        """All finished samples of a request, in the order of their index."""
        wants_prompt = prepared.params.prompt_logprobs is not None and bool(rollouts)
        return RequestOutput(
            request_id=prepared.request_id,
            prompt=prepared.words.text,
            prompt_token_ids=prepared.native.prompt_token_ids,
            outputs=[self.completion(prepared, rollout) for rollout in rollouts],
            finished=True,
            prompt_logprobs=prompt_logprobs_of(rollouts[0], self.token_text) if wants_prompt else None,
            num_cached_tokens=max((rollout.cached_tokens for rollout in rollouts), default=None),
            sampling=prepared.sampling,
        )

    def token_text(self, token: int) -> str | None:
        """The text of one token; None without a tokenizer."""
        if token not in self._token_texts:
            has_text = self.info["has_tokenizer"]
            self._token_texts[token] = self.native.decode([token], False) if has_text else None
        return self._token_texts[token]

    def forward_log(self) -> None:
        """Hands the library's messages to the logger "rlgen"."""
        for level, message in self.native.take_log():
            _log.log(logging.getLevelNamesMapping()[level.upper()], "%s", message)

    def shutdown(self) -> None:
        """Ends what is in flight with "abort" and frees the model. Repeated calls are safe."""
        self.close()
        self.forward_log()
