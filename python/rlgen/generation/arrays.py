"""The few operations on arrays that batches need, for numpy and torch alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlgen.errors import BadInputError


def is_torch(value: object) -> bool:
    """True for a torch tensor. Does not load torch."""
    return any(kind.__module__.split(".")[0] == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def is_array(value: object) -> bool:
    """True for a numpy array or a torch tensor."""
    return is_torch(value) or type(value).__module__.split(".")[0] == "numpy"


def module_of(value: object) -> Any:
    """The module that makes arrays of the kind of `value`."""
    if is_torch(value):
        import torch

        return torch
    import numpy

    return numpy


def full(like: Any, shape: Sequence[int], value: Any) -> Any:
    """A new array of the kind, type and device of `like`, filled with `value`."""
    module = module_of(like)
    if is_torch(like):
        return module.full(tuple(shape), value, dtype=like.dtype, device=like.device)
    return module.full(tuple(shape), value, dtype=like.dtype)


def concatenate(arrays: Sequence[Any]) -> Any:
    """The arrays one after the other along their first dimension."""
    module = module_of(arrays[0])
    return module.cat(list(arrays)) if is_torch(arrays[0]) else module.concatenate(list(arrays))


def widen(array: Any, width: int, value: Any) -> Any:
    """`array` with its second dimension filled up to `width` with `value`, which may be an array of one place."""
    missing = width - array.shape[1]
    if missing == 0:
        return array
    shape = (array.shape[0], missing, *array.shape[2:])
    filling = full(array, shape, value) if not is_array(value) else full(array, shape, 0) + value
    module = module_of(array)
    joined = module.cat([array, filling], 1) if is_torch(array) else module.concatenate([array, filling], 1)
    return joined.to(array.dtype) if is_torch(array) else joined.astype(array.dtype)


def pick(array: Any, indices: Sequence[int]) -> Any:
    """The rows of `array` at `indices`."""
    return array[list(indices)]


def like(reference: Any, values: Any, dtype: str) -> Any:
    """`values`, which speak DLPack, as an array of the kind of `reference`; `dtype` is their type's name.

    Raises BadInputError where `reference` is neither of numpy nor of torch.
    """
    if not is_array(reference):
        raise BadInputError(f"a {type(reference).__name__} is no numpy array and no torch tensor")
    module = module_of(reference)
    if is_torch(reference):
        return module.from_dlpack(values).to(device=reference.device, dtype=getattr(module, dtype))
    return module.array(module.from_dlpack(values), dtype=dtype)
