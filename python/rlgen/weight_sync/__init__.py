"""The trainer's end of a weight update.

`WeightSynchronizer` runs one refit from the pause to the resume, over a transport: `MemoryTransport` for a
trainer in this process, `IpcTransport` for one in another process, which calls `send_weights`, `DiskTransport` for
checkpoints.
"""

from __future__ import annotations

from rlgen._native import IpcBuffers
from rlgen.weight_sync.disk import DiskTransport
from rlgen.weight_sync.ipc import IpcTransport, ipc_buffers, refit_info, send_weights
from rlgen.weight_sync.memory import MemoryTransport
from rlgen.weight_sync.supervision import supervise
from rlgen.weight_sync.synchronizer import DispatchGate, Transport, WeightSynchronizer

__all__ = [
    "DiskTransport",
    "DispatchGate",
    "IpcBuffers",
    "IpcTransport",
    "MemoryTransport",
    "Transport",
    "WeightSynchronizer",
    "ipc_buffers",
    "refit_info",
    "send_weights",
    "supervise",
]
