"""New weights for a model that runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypedDict

from rlgen import _native
from rlgen.errors import BadInputError, RlgenError

KvPolicy = Literal["recompute", "keep", "abort", "wait"]
NamedTensors: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as an update announces it: Hugging Face name, type ("bfloat16"), shape.

    digest: hex XXH3-128 of its bytes, which must then arrive; "" for none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str = ""

    def as_tuple(self) -> tuple[str, str, list[int], str]:
        """The same for the native engine."""
        return self.name, self.dtype, list(self.shape), self.digest


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update brought: tensors of the model, their bytes as sent, and how many of them changed.

    changed: tensors that are served with other bytes than before; 0 after a training step says that the trainer
    sends the wrong ones. staging_bytes: the most that was held at once beside the weights, of tensors that came
    in pieces.
    """

    tensors: int
    bytes: int
    changed: int
    staging_bytes: int


class WeightUpdate:
    """A weight update that has begun: write every tensor, then commit. Any number of threads may write.

    Until the commit the old weights serve. As a context manager it aborts what was not committed.
    """

    def __init__(self, engine: _native.Engine, update_id: str, manifest: Sequence[TensorInfo]) -> None:
        self._engine = engine
        self._dtypes = {entry.name: entry.dtype for entry in manifest}
        self.update_id = update_id
        self._ended = False

    def write(self, name: str, tensor: Any, offset: int = 0) -> None:
        """Writes a tensor, or the bytes of it from `offset` on.

        tensor: of torch or numpy, on the CPU, contiguous, read without a copy; or bytes. Raises
        BadInputError, which names the tensor, where it cannot be read or does not fit what was announced.
        """
        if isinstance(tensor, bytes | bytearray | memoryview):
            self._engine.write_bytes(self.update_id, name, offset, bytes(tensor))
            return
        announced = self._dtypes.get(name)
        dtype = dtype_name(tensor)
        if announced is not None and dtype != announced:
            raise BadInputError(f"{name} is {dtype}; the update announced {announced}")
        self._engine.write_tensor(self.update_id, name, offset, exportable(name, tensor))

    def prepare(self) -> None:
        """Checks that everything has arrived and is sound; after it only death can stop a commit."""
        self._engine.prepare_update(self.update_id)

    def commit(self) -> None:
        """Serves the new weights from the next step on; prepares first where that was not done.

        Ctrl-C ends the wait, not the commit once it has begun: the new weights serve then, sooner or later.
        """
        self.prepare()
        try:
            self._engine.commit_update(self.update_id)
        except RlgenError:
            raise
        except BaseException:
            self._ended = True
            raise
        self._ended = True

    def abort(self) -> None:
        """Drops the update; the old weights go on serving."""
        self._engine.abort_update(self.update_id)
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self.abort()


class UpdateOptions(TypedDict, total=False):
    """What may be said of a weight update.

    kv_policy: what running requests do at the change: `recompute` (default; their keys and values are
    rebuilt under the new weights), `keep` (they go on with the old ones, and are marked), `abort`, `wait` (the
    update waits until they have ended). base: the tensors are some of the model's, the others stay as they
    are in this version, which must be the one that serves. allow_rollback: the version may be older than
    the served one. cast: floating types that differ from the stored ones are converted. check_finite: NaN
    and infinity are refused. timeout_s: seconds from begin to commit; None for no limit.
    """

    kv_policy: KvPolicy
    base: int | None
    allow_rollback: bool
    cast: bool
    check_finite: bool
    timeout_s: float | None


def begin(
    engine: _native.Engine, manifest: Sequence[TensorInfo], version: int | None, options: UpdateOptions
) -> WeightUpdate:
    """Begins an update, as `LLM.begin_update` says."""
    for entry in manifest:
        if not isinstance(entry, TensorInfo):
            raise BadInputError(f"the manifest lists {entry!r}; it must be of TensorInfo")
    announced = [entry.as_tuple() for entry in manifest]
    update_id = engine.begin_update(announced, _words(version, options))
    return WeightUpdate(engine, update_id, manifest)


def _words(version: int | None, options: UpdateOptions) -> _native.UpdateOptions:
    unknown = sorted(options.keys() - UpdateOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(UpdateOptions.__annotations__)
        raise TypeError(f"an update has no option {unknown[0]!r}; there are {known}")
    return _native.UpdateOptions(uuid.uuid4().hex, version, **options)


def _pairs(tensors: NamedTensors) -> Iterable[tuple[str, Any]]:
    if isinstance(tensors, Mapping):
        return tensors.items()
    pairs = list(tensors) if isinstance(tensors, Iterable) else [tensors]
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise BadInputError(f"named_tensors has {pair!r:.80}; give a mapping, or pairs of name and tensor")
    return pairs


def send(engine: _native.Engine, tensors: NamedTensors, version: int | None, options: UpdateOptions) -> int:
    """One whole update from tensors at hand. Returns the version that serves then."""
    given = [(name, dtype_name(tensor), exportable(name, tensor)) for name, tensor in _pairs(tensors)]
    engine.send_tensors(given, _words(version, options))
    return engine.weight_version()


def send_checkpoint(
    engine: _native.Engine, folder: str | PathLike[str], version: int | None, options: UpdateOptions
) -> int:
    """One whole update from a checkpoint on disk. Returns the version that serves then."""
    engine.send_checkpoint(fspath(folder), _words(version, options))
    return engine.weight_version()


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of the weights on disk, and its checkpoint."""

    version: int
    folder: str


def wait_for_version(root: str | PathLike[str], at_least: int = 0, *, timeout_s: float = 120.0) -> StoredVersion:
    """The newest version in a trainer's folder of checkpoints, once there is one from `at_least` on.

    root: has a folder for each version, whose name is a number or ends in one after `_` or `-`. One counts once
    it holds the empty file `STABLE`, which the trainer writes last. Raises DeadlineError after timeout_s
    seconds, which says what is there; BadInputError where `root` is no folder or two folders have one number.
    """
    return StoredVersion(*_native.wait_for_version(fspath(root), at_least, timeout_s))


def checksums(engine: _native.Engine) -> dict[str, TensorInfo]:
    """What serves, as `LLM.weight_checksums` says."""
    return {
        name: TensorInfo(name, dtype, tuple(shape), digest) for name, dtype, shape, digest in engine.weight_checksums()
    }


def manifest_of(named: Iterable[tuple[str, Any]]) -> list[TensorInfo]:
    """What an update with these tensors has to announce."""
    return [TensorInfo(name, dtype_name(tensor), tuple(tensor.shape)) for name, tensor in named]


def dtype_name(tensor: Any) -> str:
    """The name of a tensor's type: "float32", "bfloat16", ..."""
    if not hasattr(tensor, "dtype"):
        raise BadInputError(f"a {type(tensor).__name__} is no tensor: it has no dtype")
    return str(tensor.dtype).removeprefix("torch.")


def exportable(name: str, tensor: Any) -> Any:
    """`tensor` as something that hands out its memory through DLPack, without a copy."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    # numpy hands out no type that is not its own.
    if type(tensor).__module__.split(".")[0] == "numpy" and dtype_name(tensor) == "bfloat16":
        tensor = tensor.view("uint16")
    if not hasattr(tensor, "__dlpack__"):
        raise BadInputError(f"{name} is a {type(tensor).__name__}, which does not speak DLPack")
    return tensor
