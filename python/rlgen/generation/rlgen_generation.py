"""The backend "rlgen" as a trainer drives it."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from rlgen import _native, futures
from rlgen.controls import check_mode, check_tags
from rlgen.engine import Engine
from rlgen.errors import BadInputError, PreconditionError, UnsupportedError
from rlgen.generation.batch_io import BatchReader, Row, write_batch
from rlgen.generation.interfaces import (
    BatchedDataDict,
    GenerationConfig,
    GenerationDatumSpec,
    GenerationInterface,
    GenerationOutputSpec,
    GenerationSamplingParams,
    MasterConfig,
    MediaColumnSpec,
    reject_unenforceable_refit_deadline,
)
from rlgen.refit_calls import RefitCalls
from rlgen.streams import StreamTable

_log = logging.getLogger("rlgen")
Batch = BatchedDataDict[Any]


class RlgenGeneration(RefitCalls, GenerationInterface):
    """Generation on engines of this process.

    config: the section `policy.generation` with backend "rlgen" (docs/python.md has every key). It is read
    once and not changed. cluster: taken for the sake of trainers that hand one over; engines run in this
    process, so one whose `node_count` is above 1 is refused, and nothing else is looked at. tokenizer: the
    trainer's, for the pad id and the end-of-sequence ids; None for those of the checkpoint.

    Batches are of numpy or torch, and what comes back is of the same kind, in the class of batch that was
    given. Thread-safe, but for generate_async, whose streams belong to one event loop at a time.
    """

    def __init__(self, config: GenerationConfig, *, cluster: Any = None, tokenizer: Any = None) -> None:
        _check_cluster(cluster)
        self.cfg = config
        self._settings = _native.read_generation_config(json.dumps(dict(config), default=_plain))
        self._drive(Engine.adopt(_native.Engine.from_config(self._settings)))
        facts = self._engine.native.tokenizer_facts()
        pad, eos = facts if tokenizer is None else _facts_of(tokenizer)
        for message in self._settings.finalize(pad, eos):
            _log.warning("%s", message)
        self._reader = BatchReader(self._engine, self._settings)
        self._metrics = _native.EngineMetrics(self._engine.native)
        self._table: StreamTable | None = None
        self._closed = False
        weakref.finalize(self, self._metrics.stop)

    @classmethod
    def validate_settings(cls, master_config: MasterConfig) -> None:
        """Refuses what this backend cannot do, before anything is built.

        Reads policy.generation as the constructor does, and looks at the switches of router replay, token
        capture and fleet health. Raises BadInputError or UnsupportedError with the dotted key.
        """
        read: dict[str, Any] = {}
        for dotted in ("policy.generation", *_native.settings_to_validate()):
            *folders, name = dotted.split(".")
            place = read
            for folder in folders:
                place = place.setdefault(folder, {})
            place[name] = _section(master_config, dotted)
        _native.validate_settings(json.dumps(read, default=_plain))

    @property
    def dp_size(self) -> int:
        """How many engines there are."""
        return self._settings.dp_size

    @property
    def dp_openai_server_base_urls(self) -> list[str | None]:
        """For each engine the URL of its HTTP server; None, since there are none."""
        return [None] * self.dp_size

    @property
    def validation_sampling(self) -> GenerationSamplingParams:
        """The profile of the `val_` keys."""
        return GenerationSamplingParams(*self._settings.validation)

    def generate(
        self,
        data: BatchedDataDict[GenerationDatumSpec],
        greedy: bool,
        *,
        sampling: GenerationSamplingParams | None = None,
    ) -> BatchedDataDict[GenerationOutputSpec]:
        """Completes every row of `data`.

        data: `input_ids` [B, P], right-padded, `input_lengths` [B], and if wanted `stop_strings` (a row's
        own, beside the configured ones) and `seeds`. greedy: the largest logit each time. sampling: the
        profile, that of training unless given.

        The result has the keys of GenerationOutputSpec (the four of routes where `rlgen_cfg` has
        enable_return_routed_experts), and weight_versions [B, T] int64 (-1 over prompt
        and padding), seeds [B], finish_reasons, logprobs_mode and context_full [B]. max_new_tokens is cut to
        the room that a prompt leaves; without room a row has no token, truncated is False and context_full
        True. Raises PreconditionError (an AssertionError) for what is no such batch, BadInputError for
        wrong padding, media and values that cannot be, and the error of a row that failed.
        """
        rows = self._reader.token_rows(data, greedy, sampling)
        width = int(data["input_ids"].shape[1]) if rows else 0
        return cast(Batch, write_batch(data, self._run(rows), self._engine, self._settings, width))

    async def generate_async(
        self,
        data: BatchedDataDict[GenerationDatumSpec],
        greedy: bool = False,
        *,
        sampling: GenerationSamplingParams | None = None,
    ) -> AsyncGenerator[tuple[int, BatchedDataDict[GenerationOutputSpec]], None]:
        """Completes one row on the running event loop and yields (0, its batch), of width L + G.

        Its `gen_leader_worker_idx` is a list of the index of the engine that served it; -1 where no token fits.
        Nothing is yielded for an empty batch. Leaving the iteration cancels the request in the engine. Raises
        PreconditionError for a batch of several rows, beside the errors of `generate`.
        """
        rows = self._reader.token_rows(data, greedy, sampling)
        _check_single(len(rows))
        for row in rows:
            rollout, _ = await self._stream(row)
            output = write_batch(data, [rollout], self._engine, self._settings, len(rollout.prompt_token_ids))
            yield 0, cast(Batch, _with_leader(output, rollout))

    def generate_text(
        self,
        data: BatchedDataDict[GenerationDatumSpec],
        greedy: bool,
        *,
        sampling: GenerationSamplingParams | None = None,
    ) -> BatchedDataDict[GenerationOutputSpec]:
        """Completes `prompts`, a list of texts, and returns `texts`, stop strings included."""
        rollouts = self._run(self._reader.text_rows(data, greedy, sampling))
        return cast(Batch, _text_batch(data, rollouts, [rollout.text for rollout in rollouts]))

    async def generate_text_async(
        self,
        data: BatchedDataDict[GenerationDatumSpec],
        greedy: bool = False,
        *,
        sampling: GenerationSamplingParams | None = None,
    ) -> AsyncGenerator[tuple[int, BatchedDataDict[GenerationOutputSpec]], None]:
        """Completes one prompt of `prompts` on the running event loop and yields (0, a batch with `texts`).

        `gen_leader_worker_idx` is as generate_async has it.
        """
        rows = self._reader.text_rows(data, greedy, sampling)
        _check_single(len(rows))
        for row in rows:
            rollout, text = await self._stream(row)
            yield 0, cast(Batch, _with_leader(_text_batch(data, [rollout], [text]), rollout))

    def prepare_for_generation(self, *args: Any, tags: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Wakes what sleeps: the weights, the KV cache, or both without `tags`. True; cheap where nothing sleeps.

        Weights come back as they served, unless a refit came first. Tags of other backends ask for nothing here.
        """
        known = [tag for tag in tags or () if tag in ("weights", "kv_cache")]
        if tags and not known:
            return True
        self._engine.native.wake(*check_tags(known or ("weights", "kv_cache")))
        return True

    def finish_generation(self, *args: Any, release_gpu: bool = True, **kwargs: Any) -> bool:
        """Ends a phase. True.

        Engines that share the trainer's machine give weights and KV back to the system, unless release_gpu is
        False; generating is then an error until prepare_for_generation. Others go on serving.
        """
        if self._settings.colocated and release_gpu:
            self._engine.native.sleep()
        return True

    def shutdown(self) -> bool:
        """Stops the engines; what is in flight ends with "abort". True; repeated calls are safe."""
        if not self._closed:
            self._closed = True
            self._metrics.stop()
            self._engine.shutdown()
        return True

    def pause_generation(self, mode: str) -> None:
        """Pauses what is in flight: `keep`, `wait`, `abort` or `retract`, as `LLM.pause` has them."""
        check_mode(mode)
        self._engine.native.pause(mode)

    def continue_generation(self) -> None:
        """Goes on after pause_generation. Without a pause it changes nothing."""
        self._engine.native.resume()

    def invalidate_kv_cache(self) -> bool:
        """Drops all KV; running requests rebuild theirs. True when no KV of earlier weights is read from here on."""
        return self._engine.native.invalidate_kv_cache()

    def shard_liveness_ref(self, shard_idx: int) -> Any:
        """A future that gives True once the engine has answered. Raises BadInputError for an unknown index."""
        if not 0 <= shard_idx < self.dp_size:
            raise BadInputError(f"there is no shard {shard_idx}; shards go from 0 to {self.dp_size - 1}")
        return futures.start(lambda: self._engine.native.shard_serves(shard_idx), f"rlgen-liveness-{shard_idx}")

    def blocks_training(self) -> bool:
        """True when the engines share the trainer's machine (`colocated.enabled`)."""
        return self._settings.colocated

    def clear_logger_metrics(self) -> None:
        """Forgets the samples that get_logger_metrics would give."""
        self._metrics.clear()

    def get_logger_metrics(self) -> dict[str, Any]:
        """Samples since the last clear, one of now among them: metric to {engine: [samples]}.

        A thread takes them every half second; of many the last 10,000 are kept. inflight_batch_sizes: running
        sequences. num_pending_samples: waiting ones. kv_cache_usage_perc: share of the KV blocks in use, from 0
        to 1. generation_tokens: tokens generated since the start.
        """
        return dict(self._metrics.get())

    def drain_latest_logger_metrics(self) -> dict[str, Any]:
        """The newest sample of each metric and engine; older ones are forgotten."""
        return dict(self._metrics.drain())

    def snapshot_step_metrics(self) -> None:
        """Begins the window of one training step. A second one in a row warns and counts."""
        _warn(self._metrics.snapshot())

    def get_step_metrics(self) -> dict[str, float]:
        """What was counted since the snapshot: rlgen/generated_tokens, rlgen/prompt_tokens, ...

        The snapshot is used up; without one a warning and nothing.
        """
        counted, warned = self._metrics.step()
        _warn(warned)
        return counted

    def init_collective(self, ip: str, port: int, world_size: int, *, train_world_size: int) -> list[Any]:
        """Unsupported."""
        return super().init_collective(ip, port, world_size, train_world_size=train_world_size)

    def update_weights_from_collective(self, refit_timeout_s: float | None = None) -> list[Any]:
        """Unsupported."""
        reject_unenforceable_refit_deadline(type(self).__name__, refit_timeout_s)
        return super().update_weights_from_collective(refit_timeout_s)

    def prepare_nccl_reshard_refit_info(self, refit_info: dict[str, Any]) -> None:
        """Unsupported."""
        super().prepare_nccl_reshard_refit_info(refit_info)

    def nccl_reshard_refit(self, refit_timeout_s: float | None = None) -> list[Any]:
        """Unsupported."""
        reject_unenforceable_refit_deadline(type(self).__name__, refit_timeout_s)
        return super().nccl_reshard_refit(refit_timeout_s)

    def attach_fleet_health(self, monitor: Any, selector: Any) -> None:
        """Unsupported."""
        super().attach_fleet_health(monitor, selector)

    def restart_shard(self, shard_idx: int) -> str | None:
        """Unsupported."""
        return super().restart_shard(shard_idx)

    def setup_token_capture(
        self, dp_cfg: Any, staging_partition: str, *, capture_media: bool = False
    ) -> MediaColumnSpec | None:
        """Unsupported."""
        return super().setup_token_capture(dp_cfg, staging_partition, capture_media=capture_media)

    def _run(self, rows: Sequence[Row]) -> list[_native.Rollout]:
        """The rollout of every row."""
        prepared = [row.prepared for row in rows if row.prepared is not None]
        finished = iter(self._engine.native.generate([request.native for request in prepared]))
        self._engine.forward_log()
        return [next(finished)[0] if row.done is None else row.done for row in rows]

    async def _stream(self, row: Row) -> tuple[_native.Rollout, str]:
        """The rollout of one row and its text, on the running loop; cancelled with it."""
        if row.prepared is None:
            assert row.done is not None
            return row.done, ""
        loop = asyncio.get_running_loop()
        if self._table is None or (self._table.loop is not loop and not len(self._table)):
            self._table = StreamTable(self._engine, max(1, 2 * self._settings.max_num_seqs * self.dp_size))
        async with self._table.slots:
            ticket, stream = self._table.open(row.prepared)
            try:
                while not stream.finished:
                    await stream.next()
                return stream.rollouts[0], stream.text
            finally:
                self._table.close(ticket)
                self._engine.forward_log()


def _check_cluster(cluster: Any) -> None:
    count = getattr(cluster, "node_count", 1)
    nodes = count() if callable(count) else count
    if nodes is not None and nodes > 1:
        raise UnsupportedError(
            f"the cluster has {nodes} nodes; RlgenGeneration runs its engines in this process: hand over None, or a "
            "cluster of this machine"
        )


def _warn(messages: Sequence[str]) -> None:
    for message in messages:
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _check_single(rows: int) -> None:
    if rows > 1:
        raise PreconditionError(f"the batch has {rows} rows; this call takes one: make the batches outside of it")


def _text_batch(data: Any, rollouts: Sequence[_native.Rollout], texts: list[str]) -> Any:
    """A batch of the class of `data` with the texts of the results. Raises the error of the first that failed."""
    for rollout in rollouts:
        if rollout.error is not None:
            raise rollout.error
    batch = type(data)()
    batch["texts"] = texts
    batch["finish_reasons"] = [rollout.finish_reason for rollout in rollouts]
    return batch


def _with_leader(output: Any, rollout: _native.Rollout) -> Any:
    """`output`, of one row, with the engine that served it."""
    output["gen_leader_worker_idx"] = [-1 if rollout.shard is None else rollout.shard]
    return output


def _facts_of(tokenizer: Any) -> tuple[int | None, list[int]]:
    """Pad id and end-of-sequence ids of a trainer's tokenizer."""
    pad, eos = getattr(tokenizer, "pad_token_id", None), getattr(tokenizer, "eos_token_id", None)
    return pad, [] if eos is None else [int(eos)]


def _section(config: Any, dotted: str) -> Any:
    """A part of a configuration of mappings or of objects with attributes; None where it is not there."""
    for name in dotted.split("."):
        config = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
    return config


def _plain(value: Any) -> Any:
    """What the configuration may hold beside JSON: models of pydantic and mappings."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    raise BadInputError(f"the configuration holds {value!r} ({type(value).__name__}), which is no plain value")
