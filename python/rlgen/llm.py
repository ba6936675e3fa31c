"""Rolling out a list of prompts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from rlgen.controls import Controls
from rlgen.engine import Engine, EngineOptions, Prepared, RoutedExpertsLayers
from rlgen.errors import BadInputError, RlgenError
from rlgen.outputs import RequestOutput
from rlgen.prompts import MessagesPrompt, Prompt, is_one_prompt
from rlgen.sampling import LogprobsMode, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[int, int, int], None]
_log = logging.getLogger("rlgen")


class LLM(Controls):
    """A model on this machine, for rolling out lists of prompts. Any number of threads may use it.

    model: a Hugging Face folder. dtype: of the weights (`auto`: as they are stored). activation_dtype: the
    arithmetic, `float32`, or `bfloat16` or `bfloat16_amx` (for processors with AMX), which round the
    operands of products. kv_cache_memory_bytes: None for what is needed, at most kv_cache_memory_fraction
    of the free memory.
    max_num_seqs, max_num_batched_tokens: sequences and rows of one step. logprobs_mode: for sampling
    parameters that name none. enable_return_routed_experts: samples have `routed_experts`, of a model with
    experts (needs numpy); routed_experts_layers: `moe`, the layers with experts, or `all`. data_parallel_size: that many engines side by side. isa, num_threads: of the
    machine, None for all. No result depends on anything but `activation_dtype`, the types and the weights.

    Raises BadInputError for a model or an option that cannot be, OutOfCapacityError when memory does not
    suffice.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        *,
        dtype: str = "auto",
        activation_dtype: str = "float32",
        kv_cache_dtype: str = "auto",
        kv_cache_memory_bytes: int | None = None,
        kv_cache_memory_fraction: float = 0.5,
        block_size: int = 16,
        max_num_seqs: int = 64,
        max_num_batched_tokens: int = 512,
        max_model_len: int | None = None,
        enable_prefix_caching: bool = True,
        enable_return_routed_experts: bool = False,
        routed_experts_layers: RoutedExpertsLayers = "moe",
        num_threads: int | None = None,
        isa: str = "auto",
        data_parallel_size: int = 1,
        logprobs_mode: LogprobsMode = "processed",
    ) -> None:
        options = EngineOptions(
            dtype=dtype,
            activation_dtype=activation_dtype,
            kv_cache_dtype=kv_cache_dtype,
            kv_cache_memory_bytes=kv_cache_memory_bytes,
            kv_cache_memory_fraction=kv_cache_memory_fraction,
            block_size=block_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=max_model_len,
            enable_prefix_caching=enable_prefix_caching,
            enable_return_routed_experts=enable_return_routed_experts,
            routed_experts_layers=routed_experts_layers,
            num_threads=num_threads,
            isa=isa,
            data_parallel_size=data_parallel_size,
        )
        self._engine = Engine(model, options, logprobs_mode)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Rolls out every prompt and returns the results in the order of the prompts.

        prompts: text, token ids, or a mapping with `prompt`, `prompt_token_ids` or `messages` (with `tools`
        and `chat_template_kwargs`); one or many. A mapping may hold `routed_experts`, an array
        [tokens, layers, top-k] of routes to take: tokens without a row, and rows of -1, are the router's.
        sampling_params: one for all, or one a prompt. use_tqdm:
        shows a bar on a terminal where tqdm is installed.

        Raises BadInputError before anything runs where a prompt or a parameter is wrong: the text begins
        with the prompt's place. A sample that fails later has finish_reason "error" and its error. Ctrl-C
        ends the run and cancels what is in flight.
        """
        listed = [cast(Prompt, prompts)] if is_one_prompt(prompts) else list(cast("Sequence[Prompt]", prompts))
        params = _one_each(sampling_params, len(listed))
        prepared = [self._prepare(place, prompt, params[place]) for place, prompt in enumerate(listed)]
        return self._run(prepared, use_tqdm)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]] | Sequence[Sequence[Mapping[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Rolls out one conversation or a list of them through the model's chat template."""
        one = bool(messages) and isinstance(messages[0], Mapping)
        conversations = cast("Sequence[Sequence[Mapping[str, Any]]]", [messages] if one else messages)
        prompts: list[Prompt] = []
        for conversation in conversations:
            prompt: MessagesPrompt = {"messages": conversation}
            if tools:
                prompt["tools"] = tools
            if chat_template_kwargs:
                prompt["chat_template_kwargs"] = chat_template_kwargs
            prompts.append(prompt)
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def score(
        self,
        prompts: Prompt | Sequence[Prompt],
        token_ids: Sequence[int] | Sequence[Sequence[int]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        routed_experts: Sequence[Any] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """The log-probabilities of given completions, one a prompt, under the sampling parameters.

        With the parameters of a generation they equal its `token_logprobs` bit for bit. No token is made;
        each result has one output with the given `token_ids`.

        routed_experts: the routes to take, one array [tokens, layers, top-k] a prompt (or None), with a row
        for each token of prompt and completion, the last one's if wanted; rows of -1 let the router decide.
        """
        one = is_one_prompt(prompts)
        listed = [cast(Prompt, prompts)] if one else list(cast("Sequence[Prompt]", prompts))
        completions = cast("Sequence[Sequence[int]]", [token_ids] if one else token_ids)
        if len(completions) != len(listed):
            raise BadInputError(f"{len(completions)} completions were given for {len(listed)} prompts")
        params = _one_each(sampling_params, len(listed))
        routes = _routes_each(routed_experts, one, len(listed))
        prepared = [
            self._prepare(place, prompt, params[place], completions[place], routes[place])
            for place, prompt in enumerate(listed)
        ]
        return self._run(prepared, use_tqdm)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The token ids of `text`, with the special tokens that the tokenizer adds unless told otherwise."""
        return self._engine.native.encode(text, add_special_tokens)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `token_ids`."""
        return self._engine.native.decode(list(token_ids), skip_special_tokens)

    def shutdown(self) -> None:
        """Stops the engines. Repeated calls are safe; other calls raise ShardLostError from then on."""
        self._engine.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _prepare(
        self,
        place: int,
        prompt: Prompt,
        params: SamplingParams,
        completion: Sequence[int] | None = None,
        routes: Any = None,
    ) -> Prepared:
        try:
            return self._engine.prepare(prompt, params, str(place), completion, routed_experts=routes)
        except RlgenError as error:
            error.args = (f"prompts[{place}]: {error}",)
            raise

    def _run(self, prepared: list[Prepared], use_tqdm: bool) -> list[RequestOutput]:
        samples = sum(request.native.n for request in prepared)
        detokenize = any(request.params.detokenize for request in prepared)
        with _bar(samples, use_tqdm) as progress:
            results = self._engine.native.generate([request.native for request in prepared], detokenize, progress)
        self._engine.forward_log()
        outputs = [self._engine.output(request, rollouts) for request, rollouts in zip(prepared, results, strict=True)]
        for request, output in zip(prepared, outputs, strict=True):
            if not request.params.detokenize:
                for sample in output.outputs:
                    sample.text = ""
        return outputs


def _one_each(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> Sequence[SamplingParams]:
    """Sampling parameters for each of `count` prompts."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if not isinstance(params, Sequence) or not all(isinstance(one, SamplingParams) for one in params):
        raise BadInputError(f"sampling_params are {params!r}; give SamplingParams, or a list of one for each prompt")
    if len(params) != count:
        raise BadInputError(f"{len(params)} sampling_params were given for {count} prompts; give one, or one each")
    return params


def _routes_each(routes: Any, one: bool, count: int) -> Sequence[Any]:
    """Routes for each of `count` prompts; of a single prompt, the array itself."""
    if routes is None:
        return [None] * count
    listed = [routes] if one else routes
    if len(listed) != count:
        raise BadInputError(f"{len(listed)} routed_experts were given for {count} prompts")
    return listed


@contextmanager
def _bar(samples: int, wanted: bool) -> Iterator[Progress | None]:
    """A progress bar over `samples`, where it is wanted and tqdm is there."""
    tqdm = _find_tqdm() if wanted and samples else None
    if tqdm is None:
        yield None
        return
    start = time.monotonic()
    with tqdm(total=samples, desc="Rollouts", dynamic_ncols=True, disable=None) as bar:

        def show(rollouts: int, tokens: int, _in_flight: int) -> None:
            bar.set_postfix_str(f"{tokens / max(time.monotonic() - start, 1e-9):.0f} tok/s", refresh=False)
            bar.update(rollouts - bar.n)

        yield show
        bar.update(samples - bar.n)


def _find_tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        _log.debug("no progress bar: tqdm is not installed")
        return None
    return tqdm
