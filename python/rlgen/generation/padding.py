"""Whether a batch is right-padded."""

from typing import TYPE_CHECKING, Any, Optional, Union

from rlgen.errors import BadInputError, PreconditionError
from rlgen.generation.batched_data_dict import BatchedDataDict, is_batch

if TYPE_CHECKING:
    from rlgen.generation.interfaces import GenerationDatumSpec, GenerationOutputSpec


def verify_right_padding(
    data: Union["BatchedDataDict[GenerationDatumSpec]", "BatchedDataDict[GenerationOutputSpec]"],
    pad_value: int = 0,
    raise_error: bool = True,
) -> tuple[bool, Union[str, None]]:
    """Whether everything after each row's length is `pad_value`: (True, None), or (False, why).

    data: a batch with `input_ids` and `input_lengths`, which count first, or `output_ids` and
    `unpadded_sequence_lengths`. Only the first bad row is named. What stands before a length is not looked at.

    Raises PreconditionError (an AssertionError) for what is no batch and for a pad value of None, and, with
    raise_error, BadInputError (a ValueError) instead of returning False.
    """
    if not is_batch(data):
        raise PreconditionError(f"data is a {type(data).__name__}; it must be a BatchedDataDict")
    if pad_value is None:
        raise PreconditionError(
            "pad_value is None: the tokenizer has no pad_token_id; set one, as the tokenizer helper get_tokenizer does"
        )
    problem = _padding_problem(data, pad_value)
    if problem is not None and raise_error:
        raise BadInputError(problem)
    return problem is None, problem


def _padding_problem(data: Any, pad_value: int) -> Optional[str]:
    pairs = (("input_ids", "input_lengths"), ("output_ids", "unpadded_sequence_lengths"))
    pair = next((pair for pair in pairs if pair[0] in data and pair[1] in data), None)
    if pair is None:
        return f"the batch has the keys {sorted(data)}; it must have {' and '.join(pairs[0])}, or {' and '.join(pairs[1])}"
    ids, lengths = data[pair[0]], [int(length) for length in data[pair[1]]]
    shape = tuple(ids.shape)
    if len(shape) != 2:
        return f"{pair[0]} has the shape {shape}; it must be [batch, length]"
    if len(lengths) != shape[0]:
        return f"{pair[1]} has {len(lengths)} lengths for a batch of {shape[0]}"
    for row, length in enumerate(lengths):
        if not 0 <= length <= shape[1]:
            return f"{pair[1]}[{row}] is {length}; {pair[0]} has room for {shape[1]}"
        tail = ids[row, length:]
        if bool((tail != pad_value).any()):
            wrong = [place for place, value in enumerate(tail.tolist(), length) if value != pad_value]
            return f"{pair[0]}[{row}] is not right-padded with {pad_value}: length {length}, other ids at {wrong}"
    return None


