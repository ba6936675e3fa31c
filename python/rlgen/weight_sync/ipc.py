"""Weights of a trainer in another process of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rlgen import _native
from rlgen._native import IpcBuffers
from rlgen.weights import NamedTensors, dtype_name, exportable

BUFFER_BYTES = 32 << 20
ANSWER_SECONDS = 120.0


def ipc_buffers(buffer_bytes: int = BUFFER_BYTES) -> IpcBuffers:
    """Shared memory for `send_weights`, of one call at a time.

    buffer_bytes: of two buffers together, one of which is filled while the other is read. A tensor larger than
    one of them gets memory of its own, which is kept for the next one.
    """
    return _native.IpcBuffers(buffer_bytes)


def send_weights(
    endpoint: str,
    named_tensors: NamedTensors,
    *,
    buffers: IpcBuffers | None = None,
    timeout_s: float = ANSWER_SECONDS,
) -> None:
    """Sends an update from the trainer's process to the engines behind `endpoint`. Blocks until it is served.

    named_tensors: every tensor under its Hugging Face name, on the CPU and contiguous, in the order of
    `refit_info`; tensors that share their memory go once. buffers: made once and kept by a trainer that sends
    often, since new shared memory costs more than the copy into it; None for new ones. timeout_s: for each answer
    of the engines.

    Raises DeadlineError when the engines do not answer in time. Whether they took the weights, their own
    future says.
    """
    sender = _native.IpcSender(endpoint, buffers or ipc_buffers(), timeout_s)
    for name, tensor in unique_tensors(named_tensors):
        sender.send(name, dtype_name(tensor), exportable(name, tensor))
    sender.finish()


def refit_info(named_tensors: NamedTensors) -> dict[str, tuple[tuple[int, ...], str]]:
    """What `prepare_refit_info` takes: name to (shape, name of the type), in order, shared memory once."""
    return {name: (tuple(tensor.shape), dtype_name(tensor)) for name, tensor in unique_tensors(named_tensors)}


def unique_tensors(named_tensors: NamedTensors) -> Iterator[tuple[str, Any]]:
    """The tensors without those that are another one by a second name, like a head tied to the embedding."""
    seen = set()
    items: Iterable[tuple[str, Any]] = named_tensors.items() if isinstance(named_tensors, Mapping) else named_tensors
    for name, tensor in items:
        place = (tensor.data_ptr(), tuple(tensor.shape)) if hasattr(tensor, "data_ptr") else id(tensor)
        if place not in seen:
            seen.add(place)
            yield name, tensor


class IpcTransport:
    """Weights that a trainer's process sends by `send_weights`.

    send: told the endpoint, makes that process send, and returns the futures of its work, each of which gives
    None. info: what `refit_info` gave there.
    """

    def __init__(self, send: Callable[[str], list[Any]], info: Mapping[str, tuple[Iterable[int], Any]]) -> None:
        self._send = send
        self._info = info

    def init_communicator(self, generation: Any) -> None:
        """Tells the engines which tensors will come."""
        generation.prepare_refit_info(dict(self._info))

    def start(self, generation: Any, timeout_s: float) -> tuple[list[Any], list[Any]]:
        """Begins a transfer; returns the futures of producers and of consumers."""
        consumers = generation.update_weights_via_ipc_zmq()
        return self._send(generation.ipc_endpoint), consumers

    def shutdown(self) -> None:
        """Nothing to tear down."""
