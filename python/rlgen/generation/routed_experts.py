"""How routes through experts are stored and sent."""

import base64
import binascii
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Optional, cast

from rlgen.errors import BadInputError
from rlgen.generation import arrays
from rlgen.generation.lazy_modules import LazyModule

if TYPE_CHECKING:
    import torch
else:
    torch = LazyModule("torch")

FALLBACK_NAME = "int16"
MAGIC = "nrlre1"
DTYPE_LIMITS = {"int8": 2**7, "int16": 2**15, "int32": 2**31}


def get_num_routed_experts(hf_config: Any) -> Optional[int]:
    """How many experts a router of the model chooses from; None for a dense or unknown model.

    Looks at the configuration and then at its `text_config` for `num_experts`, `n_routed_experts` and
    `num_local_experts`; the first whole number above 0 counts. Never raises.
    """
    for config in (hf_config, _attribute(hf_config, "text_config")):
        for name in ("num_experts", "n_routed_experts", "num_local_experts"):
            value = _attribute(config, name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _attribute(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # an odd object's property must not stop a best effort
        return None


def _routed_experts_dtype_name(num_experts: Optional[int]) -> str:
    if num_experts is None:
        return FALLBACK_NAME
    for name, limit in DTYPE_LIMITS.items():
        if num_experts <= limit:
            return name
    raise BadInputError(f"num_experts is {num_experts}; no id of it fits 32 bits")


def resolve_routed_experts_dtype(num_experts: Optional[int]) -> "torch.dtype":
    """The narrowest signed type for ids 0 .. num_experts - 1 and -1; int16 where the number is not known."""
    return cast("torch.dtype", getattr(torch, _routed_experts_dtype_name(num_experts)))


def resolve_routed_experts_dtype_name_for_model(model_name: str) -> str:
    """The name of that type for a model: "int8", "int16" or "int32"; "int16" where its configuration cannot be read.

    model_name: a Hugging Face folder, or a name that `transformers` resolves.
    """
    try:
        return _routed_experts_dtype_name(get_num_routed_experts(_load_config(model_name)))
    except (OSError, ValueError, ImportError):
        return FALLBACK_NAME


def _load_config(model_name: str) -> Any:
    file = Path(model_name) / "config.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"), object_hook=lambda values: SimpleNamespace(**values))
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(model_name, trust_remote_code=True)


def encode_routed_experts(routes: Any) -> str:
    """Routes [tokens, layers, k] as text: "nrlre1:TYPE:SxLxK:BASE64" of the array in C order.

    routes: a numpy array or torch tensor of int8, int16 or int32. Raises BadInputError (a ValueError) otherwise.
    """
    values = routes.detach().cpu().numpy() if arrays.is_torch(routes) else routes
    name, shape = str(getattr(values, "dtype", type(values).__name__)), tuple(getattr(values, "shape", ()))
    if name not in DTYPE_LIMITS or len(shape) != 3:
        raise BadInputError(f"routes are {name} {shape}; they must be [tokens, layers, k] of {', '.join(DTYPE_LIMITS)}")
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    text = base64.b64encode(little.tobytes()).decode()
    return f"{MAGIC}:{name}:{'x'.join(map(str, shape))}:{text}"


def decode_routed_experts(text: Any) -> "torch.Tensor":
    """The tensor that encode_routed_experts wrote, or one of the older nested lists (as int16).

    Raises BadInputError (a ValueError) for anything else.
    """
    if isinstance(text, list):
        try:
            routes = torch.tensor(text, dtype=getattr(torch, FALLBACK_NAME))
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadInputError(f"routes as nested lists: {error}") from error
        if routes.ndim != 3:
            raise BadInputError(f"routes as nested lists have the shape {tuple(routes.shape)}; it must be [tokens, layers, k]")
        return routes
    name, shape, content = _open_envelope(text)
    routes = torch.frombuffer(bytearray(content), dtype=getattr(torch, name)) if content else torch.empty(0)
    return routes.to(getattr(torch, name)).reshape(shape)


def _open_envelope(text: Any) -> tuple[str, tuple[int, ...], bytes]:
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 4 or parts[0] != MAGIC or parts[1] not in DTYPE_LIMITS:
        raise BadInputError(f"routes are {str(text)[:60]!r}; they must read {MAGIC}:TYPE:SxLxK:BASE64")
    try:
        shape = tuple(int(number) for number in parts[2].split("x"))
        content = base64.b64decode(parts[3], validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadInputError(f"routes {text[:60]!r}: {error}") from error
    width = {"int8": 1, "int16": 2, "int32": 4}[parts[1]]
    if len(shape) != 3 or min(shape) < 0 or len(content) != width * shape[0] * shape[1] * shape[2]:
        raise BadInputError(f"routes {text[:60]!r}: {len(content)} bytes for {parts[1]} {shape}")
    return parts[1], shape, content
