"""Requests whose tokens are read while they run, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rlgen import _native
from rlgen.engine import Engine, Prepared
from rlgen.errors import RlgenError, WrongStateError
from rlgen.outputs import (
    CompletionOutput,
    RequestOutput,
    join_routes,
    position_logprobs,
    prompt_logprobs_of,
    routes_of,
)
from rlgen.rollouts import VersionSpan
from rlgen.sampling import RequestOutputKind

_WATCH_SECONDS = 1.0


class Stream:
    """The news of one request. Of the event loop's thread."""

    def __init__(self, engine: Engine, prepared: Prepared) -> None:
        self.prepared = prepared
        self.ids: list[int] = []
        self.error: RlgenError | None = None
        self.rollouts: list[_native.Rollout] = []  # of the samples that have ended
        self._engine = engine
        self._pieces: list[_native.Piece] = []
        self._news = asyncio.Event()
        mode = prepared.sampling["logprobs_mode"]
        self._samples = [CompletionOutput(index=index, logprobs_mode=mode) for index in range(prepared.native.n)]
        self._routes: list[list[Any]] = [[] for _ in self._samples]  # as they came, joined where they are shown
        self._cached: int | None = None

    @property
    def finished(self) -> bool:
        """True once every sample has ended."""
        return all(sample.finished() for sample in self._samples)

    @property
    def text(self) -> str:
        """The text of the first sample so far."""
        return self._samples[0].text

    def put(self, piece: _native.Piece) -> None:
        """Takes a piece from the engine."""
        self._pieces.append(piece)
        self._news.set()

    def fail(self, error: RlgenError) -> None:
        """Ends the stream with `error`."""
        self.error = error
        self._news.set()

    async def next(self) -> RequestOutput | None:
        """What came since the last call, waiting for it; None where the output kind shows nothing of it."""
        await self._news.wait()
        self._news.clear()
        if self.error is not None:
            raise self.error
        pieces, self._pieces = self._pieces, []
        news = [self._take(piece) for piece in pieces]
        kind = self.prepared.params.output_kind
        if kind is RequestOutputKind.DELTA:
            return self._output(_merge(news)) if news else None
        if kind is RequestOutputKind.FINAL_ONLY and not self.finished:
            return None
        return self._output([_copy(sample, self._joined_routes(sample.index)) for sample in self._samples])

    def _joined_routes(self, index: int) -> Any:
        parts = self._routes[index]
        if len(parts) > 1:
            self._routes[index] = parts = [join_routes(parts)]
        return parts[0] if parts else None

    def _take(self, piece: _native.Piece) -> CompletionOutput:
        """Adds a piece to its sample and returns what it added."""
        sample = self._samples[piece.sample]
        token_ids, logprobs = piece.token_ids, piece.logprobs
        wants_text = self.prepared.params.detokenize
        delta = CompletionOutput(
            index=piece.sample,
            text=self._engine.native.take_text(self.prepared.native, piece) if wants_text else "",
            token_ids=token_ids,
            token_logprobs=logprobs,
            logprobs_mode=sample.logprobs_mode,
            weight_versions=_spans(piece.versions, len(sample.token_ids)),
            seed=self.prepared.native.seed,
            numerics=self._engine.info["numerics"],
            routed_experts=routes_of(piece),
        )
        if delta.routed_experts is not None and self.prepared.params.output_kind is not RequestOutputKind.DELTA:
            self._routes[piece.sample].append(delta.routed_experts)
        if self.prepared.params.logprobs is not None:
            delta.logprobs = position_logprobs(token_ids, logprobs, piece.top_logprobs, self._engine.token_text)
        if piece.rollout is not None:
            self._finish(delta, piece.rollout)
        _extend(sample, delta)
        return delta

    def _finish(self, delta: CompletionOutput, rollout: _native.Rollout) -> None:
        delta.finish_reason = rollout.finish_reason
        delta.stop_reason = rollout.stop_reason
        delta.truncated = rollout.truncated
        delta.context_full = rollout.context_full
        delta.error = rollout.error
        self.rollouts.append(rollout)
        self._cached = max(self._cached or 0, rollout.cached_tokens)

    def _output(self, outputs: list[CompletionOutput]) -> RequestOutput:
        wants_prompt = self.prepared.params.prompt_logprobs is not None and bool(self.rollouts)
        return RequestOutput(
            request_id=self.prepared.request_id,
            prompt=self.prepared.words.text,
            prompt_token_ids=self.prepared.native.prompt_token_ids,
            outputs=outputs,
            finished=self.finished,
            prompt_logprobs=prompt_logprobs_of(self.rollouts[0], self._engine.token_text) if wants_prompt else None,
            num_cached_tokens=self._cached,
            sampling=self.prepared.sampling,
        )


class StreamTable:
    """The open streams of one engine on one event loop, and the way of their pieces to them."""

    def __init__(self, engine: Engine, slots: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.slots = asyncio.Semaphore(slots)
        self._engine = engine
        self._mailbox = _native.Mailbox()
        self._streams: dict[int, Stream] = {}
        self._next_ticket = 0
        self._watch: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, prepared: Prepared) -> tuple[int, Stream]:
        """Starts a request. Returns the ticket that `close` takes."""
        if asyncio.get_running_loop() is not self.loop:
            raise WrongStateError("this AsyncLLM has open streams on another event loop; use one loop at a time")
        ticket = self._next_ticket
        self._next_ticket += 1
        stream = Stream(self._engine, prepared)
        if not self._streams:
            self.loop.add_reader(self._mailbox.fd, self._deliver)
        self._streams[ticket] = stream
        try:
            stream.ids = self._engine.native.submit(prepared.native, ticket, self._mailbox)
        except BaseException:
            self.close(ticket)
            raise
        if self._watch is None or self._watch.done():
            self._watch = self.loop.create_task(self._watch_progress())
        return ticket, stream

    def close(self, ticket: int) -> None:
        """Forgets a stream; what of it still runs is cancelled."""
        stream = self._streams.pop(ticket)
        if stream.ids and not stream.finished:
            self._engine.native.cancel(stream.ids)
        if not self._streams:
            self.loop.remove_reader(self._mailbox.fd)
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def cancel(self, request_ids: set[str]) -> None:
        """Cancels the streams of these requests: they end with finish reason "abort"."""
        for stream in self._streams.values():
            if stream.prepared.request_id in request_ids:
                self._engine.native.cancel(stream.ids)

    def has(self, request_id: str) -> bool:
        """True while a request of that name is open."""
        return any(stream.prepared.request_id == request_id for stream in self._streams.values())

    def _deliver(self) -> None:
        for piece in self._mailbox.take():
            stream = self._streams.get(piece.ticket)
            if stream is not None:
                stream.put(piece)

    async def _watch_progress(self) -> None:
        """Ends all streams with an error when a shard stops computing."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                await asyncio.to_thread(self._engine.native.check_progress)
            except RlgenError as error:
                for stream in self._streams.values():
                    stream.fail(error)
                return


def _spans(versions: Sequence[tuple[int, int]], begin: int) -> list[VersionSpan]:
    """Spans over tokens that begin at position `begin` of the output."""
    spans: list[VersionSpan] = []
    for place, (version, oldest_kv) in enumerate(versions, begin):
        last = spans[-1] if spans else None
        if last and (last.version, last.oldest_kv) == (version, oldest_kv):
            spans[-1] = VersionSpan(last.begin, place + 1, version, oldest_kv)
        else:
            spans.append(VersionSpan(place, place + 1, version, oldest_kv))
    return spans


def _extend(sample: CompletionOutput, delta: CompletionOutput) -> None:
    """Appends `delta` to `sample`."""
    sample.text += delta.text
    sample.token_ids += delta.token_ids
    sample.token_logprobs += delta.token_logprobs
    if delta.logprobs is not None:
        sample.logprobs = (sample.logprobs or []) + delta.logprobs
    for span in delta.weight_versions:
        last = sample.weight_versions[-1] if sample.weight_versions else None
        if last and (last.version, last.oldest_kv) == (span.version, span.oldest_kv):
            sample.weight_versions[-1] = VersionSpan(last.begin, span.end, span.version, span.oldest_kv)
        else:
            sample.weight_versions.append(span)
    for name in ("seed", "numerics", "finish_reason", "stop_reason", "truncated", "context_full", "error"):
        setattr(sample, name, getattr(delta, name))


def _merge(news: list[CompletionOutput]) -> list[CompletionOutput]:
    """One output a sample of several of one sample, by index."""
    merged: dict[int, CompletionOutput] = {}
    for delta in news:
        if delta.index in merged:
            _extend(merged[delta.index], delta)
            _extend_routes(merged[delta.index], delta)
        else:
            merged[delta.index] = delta
    return [merged[index] for index in sorted(merged)]


def _extend_routes(sample: CompletionOutput, delta: CompletionOutput) -> None:
    """Appends the routes of `delta` to those of `sample`."""
    parts = [part for part in (sample.routed_experts, delta.routed_experts) if part is not None]
    sample.routed_experts = join_routes(parts) if parts else None


def _copy(sample: CompletionOutput, routed_experts: Any) -> CompletionOutput:
    """`sample` with lists of its own, and these routes."""
    return CompletionOutput(
        index=sample.index,
        text=sample.text,
        token_ids=list(sample.token_ids),
        token_logprobs=list(sample.token_logprobs),
        logprobs=None if sample.logprobs is None else list(sample.logprobs),
        logprobs_mode=sample.logprobs_mode,
        finish_reason=sample.finish_reason,
        stop_reason=sample.stop_reason,
        truncated=sample.truncated,
        context_full=sample.context_full,
        weight_versions=list(sample.weight_versions),
        seed=sample.seed,
        numerics=sample.numerics,
        error=sample.error,
        routed_experts=routed_experts,
    )
