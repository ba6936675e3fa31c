"""The forms in which a prompt may be given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Required, TypeAlias, TypedDict, cast

from rlgen.errors import BadInputError


class _WithRoutes(TypedDict, total=False):
    routed_experts: Any


class TextPrompt(_WithRoutes):
    """Text, tokenized with the special tokens that the tokenizer adds."""

    prompt: Required[str]


class TokensPrompt(_WithRoutes):
    """Token ids, used as they are."""

    prompt_token_ids: Required[Sequence[int]]


class _MessagesRequired(_WithRoutes):
    messages: Required[Sequence[Mapping[str, Any]]]


class MessagesPrompt(_MessagesRequired, total=False):
    """A conversation for the model's chat template, with the start of the assistant's turn."""

    tools: Sequence[Mapping[str, Any]]
    chat_template_kwargs: Mapping[str, Any]


Prompt: TypeAlias = str | Sequence[int] | TextPrompt | TokensPrompt | MessagesPrompt
_FORMS = {
    "prompt": {"prompt", "routed_experts"},
    "prompt_token_ids": {"prompt_token_ids", "routed_experts"},
    "messages": {"messages", "tools", "chat_template_kwargs", "routed_experts"},
}


@dataclass(frozen=True, slots=True)
class PromptWords:
    """A prompt as the native engine takes it."""

    prompt: str | list[int]
    messages: bool = False
    tools: str = ""
    template_kwargs: str = ""
    routed_experts: Any = None

    @property
    def text(self) -> str | None:
        """The prompt where it is plain text."""
        return self.prompt if isinstance(self.prompt, str) and not self.messages else None


def is_one_prompt(prompts: object) -> bool:
    """True for a single prompt, False for a sequence of them. Raises BadInputError for what is neither."""
    if isinstance(prompts, str | Mapping) or getattr(prompts, "ndim", None) == 1:
        return True
    if not isinstance(prompts, Iterable):
        raise BadInputError(f"prompts are {prompts!r}; give one prompt or a list: text, token ids or mappings")
    return isinstance(prompts, Sequence) and bool(prompts) and all(_is_id(item) for item in prompts)


def to_words(prompt: Prompt) -> PromptWords:
    """`prompt` for the engine. Raises BadInputError for what is none of the forms."""
    if isinstance(prompt, str):
        return PromptWords(prompt)
    if not isinstance(prompt, Mapping):
        return PromptWords(to_ids(prompt))
    for key, allowed in _FORMS.items():
        if key in prompt and not prompt.keys() - allowed:
            words = _from_mapping(key, cast("Mapping[str, Any]", prompt))
            return replace(words, routed_experts=prompt.get("routed_experts"))
    raise BadInputError(
        f"a prompt has the keys {sorted(prompt)}; it must have exactly one of {', '.join(_FORMS)} "
        "(with messages also tools, chat_template_kwargs; with any of them routed_experts)"
    )


def to_ids(ids: object) -> list[int]:
    """Token ids as a list of int: of a sequence, an array or a one-dimensional tensor."""
    values: Any = ids.tolist() if hasattr(ids, "tolist") else ids
    try:
        return [index(value) for value in values]
    except TypeError as error:
        raise BadInputError(f"a prompt is {str(ids)[:80]!r}; it must be text, token ids or a mapping") from error


def to_routes(routes: Any) -> Any:
    """Routes as the native engine takes them: a dense array of numpy, on the CPU; None for None."""
    if routes is None:
        return None
    import numpy

    values = routes.detach().cpu().numpy() if hasattr(routes, "detach") else routes
    try:
        return numpy.ascontiguousarray(values)
    except ValueError as error:
        raise BadInputError(f"routed_experts: {error}") from error


def _from_mapping(key: str, prompt: Mapping[str, Any]) -> PromptWords:
    if key == "prompt":
        if not isinstance(prompt[key], str):
            raise BadInputError(f"prompt is {prompt[key]!r}; it must be text (prompt_token_ids takes ids)")
        return PromptWords(prompt[key])
    if key == "prompt_token_ids":
        return PromptWords(to_ids(prompt[key]))
    try:
        tools = json.dumps(list(prompt["tools"])) if prompt.get("tools") else ""
        extra = json.dumps(dict(prompt["chat_template_kwargs"])) if prompt.get("chat_template_kwargs") else ""
        return PromptWords(json.dumps(list(prompt[key])), True, tools, extra)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"messages cannot be written as JSON: {error}") from error


def _is_id(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, str) and getattr(value, "ndim", 0) == 0
