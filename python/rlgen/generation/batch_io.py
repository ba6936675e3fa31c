"""Batches of a trainer as requests, and results as batches."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlgen import _native
from rlgen.engine import Engine, Prepared
from rlgen.errors import BadInputError, PreconditionError, RlgenError
from rlgen.generation import arrays
from rlgen.generation.batched_data_dict import is_batch
from rlgen.generation.interfaces import GenerationSamplingParams
from rlgen.generation.padding import verify_right_padding
from rlgen.sampling import RequestOutputKind, SamplingParams

_MEDIA_KEYS = ("vllm_content", "vllm_images", "vllm_audios", "vllm_videos")
_SEED_LIMIT = 2**53
_log = logging.getLogger("rlgen")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a batch: a request, or a result that needs no engine because no token fits."""

    prepared: Prepared | None
    done: _native.Rollout | None = None


def check_batch(data: Any, keys: Sequence[str]) -> None:
    """Raises PreconditionError (an AssertionError) unless `data` is a batch with these keys, and refuses media."""
    if not is_batch(data):
        raise PreconditionError(f"data is a {type(data).__name__}; it must be a BatchedDataDict")
    missing = [key for key in keys if key not in data]
    if missing:
        raise PreconditionError(f"the batch lacks {', '.join(missing)}; it has {', '.join(sorted(data))}")
    for key, column in data.items():
        if key in _MEDIA_KEYS and any(_holds_something(entry) for entry in column):
            raise BadInputError(f"{key} holds media, which rlgen cannot read; leave it out")
        if type(column).__name__ == "PackedTensor":
            raise BadInputError(f"{key} is a PackedTensor of media, which rlgen cannot read; leave it out")


def _holds_something(entry: Any) -> bool:
    return entry is not None and (not hasattr(entry, "__len__") or len(entry) > 0)


class BatchReader:
    """Makes requests of rows, under one configuration."""

    def __init__(self, engine: Engine, settings: _native.GenerationSettings) -> None:
        self._engine = engine
        self._settings = settings

    def token_rows(self, data: Any, greedy: bool, sampling: GenerationSamplingParams | None) -> list[Row]:
        """The rows of a batch with `input_ids` and `input_lengths`. Errors name key and row."""
        check_batch(data, ("input_ids", "input_lengths"))
        for key in ("input_ids", "input_lengths"):
            if not hasattr(data[key], "shape"):
                raise PreconditionError(f"{key} is a {type(data[key]).__name__}; it must be an array of numpy or torch")
        pad_token_id: Any = self._settings.pad_token_id
        verify_right_padding(data, pad_token_id)
        lengths = [int(length) for length in data["input_lengths"]]
        prompts = [row[:length].tolist() for row, length in zip(data["input_ids"], lengths, strict=True)]
        return self._rows(prompts, data, greedy, sampling, "input_ids")

    def text_rows(self, data: Any, greedy: bool, sampling: GenerationSamplingParams | None) -> list[Row]:
        """The rows of a batch with `prompts`, a list of texts."""
        check_batch(data, ("prompts",))
        prompts = [self._engine.native.encode(str(prompt), True) for prompt in data["prompts"]]
        return self._rows(prompts, data, greedy, sampling, "prompts")

    def _rows(
        self,
        prompts: Sequence[list[int]],
        data: Mapping[str, Any],
        greedy: bool,
        sampling: GenerationSamplingParams | None,
        key: str,
    ) -> list[Row]:
        stops = _column(data, "stop_strings", len(prompts))
        seeds = _column(data, "seeds", len(prompts))
        rows = []
        for place, ids in enumerate(prompts):
            params = self._params(greedy, sampling, stops[place], seeds[place], place)
            try:
                rows.append(self._row(ids, params, place))
            except RlgenError as error:
                error.args = (f"{key}[{place}]: {error}",)
                raise
        return rows

    def _row(self, ids: list[int], params: SamplingParams, place: int) -> Row:
        if len(ids) < self._engine.info["max_model_len"]:
            return Row(self._engine.prepare(ids, params, str(place)))
        seed = secrets.randbelow(_SEED_LIMIT)
        return Row(None, self._engine.native.full_row(ids, params.to_json(), seed))

    def _params(
        self,
        greedy: bool,
        sampling: GenerationSamplingParams | None,
        own_stops: Any,
        seed: Any,
        place: int,
    ) -> SamplingParams:
        settings = self._settings
        profile = sampling or GenerationSamplingParams(*settings.train)
        stops = list(dict.fromkeys([*settings.stop_strings, *_stop_list(own_stops, place)]))
        return SamplingParams(
            temperature=0.0 if greedy else profile.temperature,
            top_p=1.0 if greedy else profile.top_p,
            top_k=-1 if greedy or profile.top_k is None else profile.top_k,
            seed=None if seed is None else int(seed),
            stop=stops or None,
            stop_token_ids=settings.stop_token_ids,
            bad_words=settings.bad_words or None,
            ignore_eos=settings.ignore_eos,
            max_tokens=settings.max_new_tokens,
            include_stop_str_in_output=True,
            logprobs_mode=settings.logprobs_mode,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _column(data: Mapping[str, Any], key: str, rows: int) -> Sequence[Any]:
    """A column that may be absent: one entry a row, or None for each."""
    if data.get(key) is None:
        return [None] * rows
    column = data[key]
    values: Sequence[Any] = column.tolist() if arrays.is_array(column) else list(column)
    if len(values) != rows:
        raise BadInputError(f"{key} has {len(values)} entries for a batch of {rows}")
    return values


def _stop_list(own: Any, place: int) -> list[str]:
    """The stop strings of one row: of None, a string, or a list of strings."""
    stops = [] if own is None else [own] if isinstance(own, str) else list(own)
    if not all(isinstance(stop, str) for stop in stops):
        raise BadInputError(f"stop_strings[{place}] is {own!r}; it must be None, a string or a list of strings")
    return stops


def write_batch(
    data: Any,
    rollouts: Sequence[_native.Rollout],
    engine: Engine,
    settings: _native.GenerationSettings,
    prompt_width: int,
) -> Any:
    """The results as a batch of the class of `data`, with arrays of the kind of its `input_ids`.

    Routes that are missing are a warning in the log. Raises the error of the first row that failed.
    """
    ids = data["input_ids"]
    for row, rollout in enumerate(rollouts):
        if rollout.error is not None:
            error: Any = rollout.error
            error.args = (f"row {row}: {error}",)
            raise error
    columns, fallback = engine.native.lay_out(
        list(rollouts), settings.pad_token_id or 0, prompt_width, _type_name(ids), settings.logprobs_mode
    )
    if fallback:
        _log.warning("%s", fallback)
    batch = type(data)()
    for key, column in columns.items():
        batch[key] = arrays.like(ids, *column) if isinstance(column, tuple) else column
    batch["logprobs_mode"] = [settings.logprobs_mode] * len(rollouts)
    return batch


def _type_name(ids: Any) -> str:
    return str(ids.dtype).removeprefix("torch.")
