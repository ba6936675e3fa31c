"""The container that batches travel in."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from rlgen.errors import BadInputError, MissingKeyError
from rlgen.generation import arrays

DictT = TypeVar("DictT", bound=Mapping[str, Any])
_METHODS = ("from_batches", "get_dict", "size", "slice")
_PADDING = {"weight_versions": -1}


def is_batch(data: object) -> bool:
    """True for a BatchedDataDict of this module or for a trainer's own class with its methods."""
    return all(hasattr(type(data), name) for name in ("__getitem__", "keys", *_METHODS))


class BatchedDataDict(UserDict[str, Any], Generic[DictT]):
    """Columns of equal length by name: arrays (of numpy or torch) whose first dimension is the batch, or lists."""

    @classmethod
    def from_batches(
        cls, batches: Sequence[Mapping[str, Any]], pad_value_dict: Mapping[str, Any] | None = None
    ) -> Self:
        """The rows of all batches one after the other.

        Arrays of two and more dimensions are filled up along the second to the widest: with the value that
        `pad_value_dict` gives for the key, else -1 for weight_versions, the ids 0 .. k-1 for
        routed_experts, and 0. Raises MissingKeyError (a KeyError), with the key and the places of the
        batches, where a key is in some batches with rows and not in others.
        """
        filled = [(place, batch) for place, batch in enumerate(batches) if _rows(batch) > 0]
        merged = cls()
        for key in sorted({key for batch in batches for key in batch}):
            missing = [place for place, batch in filled if key not in batch]
            if missing and len(missing) < len(filled):
                raise MissingKeyError(f"{key} is missing in the batches {missing}, other batches have it")
            source = [batch for _, batch in filled] if len(missing) < len(filled) else list(batches)
            columns = [batch[key] for batch in source if key in batch]
            merged[key] = _join(key, columns, {**_PADDING, **(pad_value_dict or {})})
        return merged

    @property
    def size(self) -> int:
        """How many rows there are."""
        return _rows(self)

    def slice(self, start: int, end: int) -> Self:
        """The rows start .. end - 1."""
        return self._each(lambda column: column[start:end])

    def select_indices(self, indices: Sequence[int]) -> Self:
        """The rows at `indices`, in that order."""
        places = [int(place) for place in indices]
        return self._each(
            lambda column: (
                arrays.pick(column, places) if arrays.is_array(column) else [column[place] for place in places]
            )
        )

    def repeat_interleave(self, num_repeats: int) -> Self:
        """Every row `num_repeats` times, the copies side by side."""
        return self.select_indices([row for row in range(self.size) for _ in range(num_repeats)])

    def chunk(self, rank: int, chunks: int) -> Self:
        """Part `rank` of `chunks` equal parts. Raises BadInputError where the rows do not divide."""
        if self.size % chunks:
            raise BadInputError(f"{self.size} rows cannot be cut into {chunks} equal parts")
        rows = self.size // chunks
        return self.slice(rank * rows, (rank + 1) * rows)

    def shard_by_batch_size(
        self, shards: int, batch_size: int | None = None, allow_uneven_shards: bool = False
    ) -> list[Self]:
        """Consecutive parts for `shards` workers.

        With allow_uneven_shards each part but the last ones has ceil(size / shards) rows, the last ones
        fewer or none. With batch_size every shard takes its part of each batch of that many rows in turn.
        Raises BadInputError where the rows do not divide otherwise.
        """
        if batch_size is None and allow_uneven_shards:
            rows = -(-self.size // shards)
            return [self.slice(min(shard * rows, self.size), (shard + 1) * rows) for shard in range(shards)]
        batch = self.size if batch_size is None else batch_size
        if batch == 0 or self.size % batch or batch % shards:
            raise BadInputError(f"{self.size} rows cannot be cut into batches of {batch} for {shards} equal shards")
        rows = batch // shards
        return [
            self.select_indices(
                [start + shard * rows + row for start in range(0, self.size, batch) for row in range(rows)]
            )
            for shard in range(shards)
        ]

    def get_batch(self, batch_idx: int, batch_size: int | None = None) -> Self:
        """Batch number `batch_idx` of `batch_size` rows; all rows for None."""
        rows = self.size if batch_size is None else batch_size
        if batch_idx < 0 or batch_idx * rows >= max(self.size, 1):
            raise BadInputError(f"there is no batch {batch_idx} of {rows} rows in {self.size}")
        return self.slice(batch_idx * rows, (batch_idx + 1) * rows)

    def make_microbatch_iterator(self, microbatch_size: int) -> Iterator[Self]:
        """Parts of `microbatch_size` rows, which must divide the rows."""
        if self.size % microbatch_size:
            raise BadInputError(f"{self.size} rows cannot be cut into microbatches of {microbatch_size}")
        for start in range(0, self.size, microbatch_size):
            yield self.slice(start, start + microbatch_size)

    def truncate_tensors(self, dim: int, truncated_len: int) -> None:
        """Cuts every array that has the dimension to its first `truncated_len` places, in place."""
        for key, column in self.items():
            if arrays.is_array(column) and len(column.shape) > dim:
                self[key] = column[(slice(None),) * dim + (slice(0, truncated_len),)]

    def to(self, device: Any) -> Self:
        """Moves torch tensors to `device`, in place; everything else stays."""
        for key, column in self.items():
            if arrays.is_torch(column):
                self[key] = column.to(device)
        return self

    def get_dict(self) -> dict[str, Any]:
        """The columns as a plain dictionary."""
        return dict(self.data)

    def _each(self, change: Any) -> Self:
        return type(self)({key: change(column) for key, column in self.items()})


def _rows(batch: Mapping[str, Any]) -> int:
    """The length of the columns, which must agree."""
    lengths = {key: len(column) for key, column in batch.items() if arrays.is_array(column) or isinstance(column, list)}
    if len(set(lengths.values())) > 1:
        raise BadInputError(f"the columns differ in length: {lengths}")
    return next(iter(lengths.values()), 0)


def _join(key: str, columns: Sequence[Any], padding: Mapping[str, Any]) -> Any:
    first = columns[0]
    if isinstance(first, list):
        return [value for column in columns for value in column]
    if not arrays.is_array(first):
        raise BadInputError(f"{key} is a {type(first).__name__}; a column is an array or a list")
    if len(first.shape) < 2:
        return arrays.concatenate(columns)
    value = padding.get(key, 0)
    if key == "routed_experts" and key not in padding:
        value = arrays.module_of(first).arange(first.shape[-1])
    width = max(column.shape[1] for column in columns)
    return arrays.concatenate([arrays.widen(column, width, value) for column in columns])
