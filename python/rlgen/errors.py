"""What rlgen raises: one class per category of error, each also the built-in that callers expect.

Catch `RlgenError` for all of them, a class below it for one category, or the built-in. Every error names
the thing that is wrong (a field, a tensor, a request, a file) with its value, and says what to do.
"""

from __future__ import annotations


class RlgenError(Exception):
    """The base of all errors of this package. `code` is a short name of the error for machines."""

    code: str = "unknown"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class BadInputError(RlgenError, ValueError):
    """What the caller gave cannot be used."""


class MissingKeyError(BadInputError, KeyError):
    """A key that must be there is not."""


class PreconditionError(BadInputError, AssertionError):
    """A rule of a call was not kept, like a required argument or its type."""


class UnsupportedError(RlgenError, NotImplementedError):
    """This backend cannot do what was asked for."""


class ShardLostError(RlgenError, RuntimeError):
    """A shard is gone or stopped serving."""


class DeadlineError(RlgenError, TimeoutError):
    """Something took longer than it was allowed to."""


class OutOfCapacityError(RlgenError, RuntimeError):
    """There is not enough memory, or not enough of another resource."""


class CorruptDataError(RlgenError, RuntimeError):
    """Data that came in or was read is damaged."""


class WrongStateError(RlgenError, RuntimeError):
    """The call is right, but not in the state that things are in."""


class CancelledError(RlgenError, RuntimeError):
    """The work was given up on request."""


class InternalError(RlgenError, RuntimeError):
    """A fault of rlgen itself."""


class GenerationUnavailable(ShardLostError):
    """No answer could be had for a generation request."""


class NoHealthyShards(ShardLostError):
    """No shard serves."""


class GenerationFleetExhausted(ShardLostError):
    """Fewer shards serve than must."""


class NoSurvivingShards(ShardLostError):
    """No shard is left to rebuild with."""


class RefitAborted(RlgenError, RuntimeError):
    """A weight update was given up, at its deadline or on request. The old weights serve."""


class RefitParticipantError(RlgenError, RuntimeError):
    """One side of a weight update failed; the text names its role, producer or consumer."""


class IPCWeightManifestError(BadInputError):
    """The tensors that came over IPC are not those that were announced, or those announced not the model's."""


_BY_STATUS: dict[str, type[RlgenError]] = {
    "INVALID_ARGUMENT": BadInputError,
    "OUT_OF_RANGE": BadInputError,
    "NOT_FOUND": BadInputError,
    "ALREADY_EXISTS": BadInputError,
    "UNIMPLEMENTED": UnsupportedError,
    "UNAVAILABLE": ShardLostError,
    "DEADLINE_EXCEEDED": DeadlineError,
    "RESOURCE_EXHAUSTED": OutOfCapacityError,
    "DATA_LOSS": CorruptDataError,
    "FAILED_PRECONDITION": WrongStateError,
    "ABORTED": WrongStateError,
    "CANCELLED": CancelledError,
}
_BY_TYPE: dict[str, type[RlgenError]] = {
    "KeyError": MissingKeyError,
    "AssertionError": PreconditionError,
    **{
        kind.__name__: kind
        for kind in (
            GenerationUnavailable,
            NoHealthyShards,
            GenerationFleetExhausted,
            NoSurvivingShards,
            RefitAborted,
            IPCWeightManifestError,
        )
    },
}


_BY_BUILTIN: dict[type[Exception], type[RlgenError]] = {
    ValueError: BadInputError,
    NotImplementedError: UnsupportedError,
    TimeoutError: DeadlineError,
    RuntimeError: WrongStateError,
}


def from_status(status: str, code: str, message: str, error_type: str = "") -> RlgenError:
    """The exception for an error of the native library.

    status: the name of its status code, which decides the category. error_type: the exception that callers
    expect, a built-in or one of the names above; it wins where the category is none of it.
    """
    kind = _BY_TYPE.get(error_type) or _BY_STATUS.get(status, InternalError)
    for builtin, fitting in _BY_BUILTIN.items():
        if error_type == builtin.__name__ and not issubclass(kind, builtin):
            kind = fitting
    error = kind(message)
    error.code = code
    return error
