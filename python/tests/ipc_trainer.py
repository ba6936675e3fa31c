"""A trainer's process: sends a fixture checkpoint, every weight times a factor, to the engines behind an endpoint."""

from __future__ import annotations

import sys

from rlgen.weight_sync import send_weights
from support import tensors_of

endpoint, model, factor = sys.argv[1:]
named = {name: tensor * tensor.dtype.type(float(factor)) for name, tensor in tensors_of(model).items()}
send_weights(endpoint, named, timeout_s=30.0)
