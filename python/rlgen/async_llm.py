"""Streaming rollouts on an asyncio event loop."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from os import PathLike
from typing import Any

from rlgen.controls import AsyncControls
from rlgen.engine import Engine, EngineOptions, Prepared, RoutedExpertsLayers
from rlgen.errors import BadInputError
from rlgen.outputs import RequestOutput
from rlgen.prompts import Prompt
from rlgen.sampling import LogprobsMode, RequestOutputKind, SamplingParams
from rlgen.streams import StreamTable


class AsyncLLM(AsyncControls):
    """A model on this machine whose requests are read while they run. Of one event loop at a time.

    The arguments are those of `LLM`, and max_concurrent_requests: requests beyond that many wait their
    turn inside `generate` before the engine sees them. A request counts until its reader has read it to
    the end or left it, so slow readers hold back new work instead of filling memory. The default is twice
    what the engines run at once.
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
        max_concurrent_requests: int | None = None,
    ) -> None:
        if max_concurrent_requests is not None and max_concurrent_requests < 1:
            raise BadInputError(f"max_concurrent_requests is {max_concurrent_requests}; it must be at least 1")
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
        self._slots = max_concurrent_requests or 2 * max_num_seqs * data_parallel_size
        self._table: StreamTable | None = None

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int = 0,
        cache_salt: str = "",
    ) -> AsyncGenerator[RequestOutput, None]:
        """Rolls out one prompt and yields what there is of it, as `SamplingParams.output_kind` says.

        The last output has `finished` True. Leaving the iteration (break, an exception, a cancelled task,
        `aclose`) cancels the request in the engine. priority: lower runs first. cache_salt: requests with
        other salts never share cached keys and values. Weight versions of a delta count positions from the
        begin of the sample. `prompt_logprobs` come with the first sample that ends.

        Raises BadInputError for a prompt, parameter or request_id that cannot be; ShardLostError or
        DeadlineError when the engine is gone or computes nothing.
        """
        name = uuid.uuid4().hex if request_id is None else request_id
        params = sampling_params or SamplingParams()
        prepared = await asyncio.to_thread(
            self._engine.prepare, prompt, params, name, cache_salt=cache_salt, priority=priority
        )
        async with aclosing(self._stream(prepared)) as outputs:
            async for output in outputs:
                yield output

    async def score(
        self,
        prompt: Prompt,
        token_ids: Sequence[int],
        sampling_params: SamplingParams | None = None,
        *,
        routed_experts: Any = None,
    ) -> RequestOutput:
        """The log-probabilities of a given completion, as `LLM.score` gives them."""
        params = replace(sampling_params or SamplingParams(), output_kind=RequestOutputKind.FINAL_ONLY)
        prepared = await asyncio.to_thread(
            self._engine.prepare, prompt, params, uuid.uuid4().hex, token_ids, routed_experts=routed_experts
        )
        return [output async for output in self._stream(prepared)][-1]

    async def abort(self, request_id: str | Iterable[str]) -> None:
        """Ends requests with finish reason "abort"; their streams still give what there was."""
        if self._table is not None:
            self._table.cancel({request_id} if isinstance(request_id, str) else set(request_id))

    def shutdown(self) -> None:
        """Stops the engines; what is in flight ends with "abort". Repeated calls are safe."""
        self._engine.shutdown()

    async def _stream(self, prepared: Prepared) -> AsyncGenerator[RequestOutput, None]:
        table = self._table_here()
        async with table.slots:
            if table.has(prepared.request_id):
                raise BadInputError(f"request_id {prepared.request_id!r} is in flight already")
            ticket, stream = table.open(prepared)
            try:
                while not stream.finished:
                    output = await stream.next()
                    if output is not None:
                        yield output
            finally:
                table.close(ticket)
                self._engine.forward_log()

    def _table_here(self) -> StreamTable:
        """The table of the running loop; a new one where the last loop has no stream left."""
        loop = asyncio.get_running_loop()
        if self._table is None or (self._table.loop is not loop and not len(self._table)):
            self._table = StreamTable(self._engine, self._slots)
        return self._table
