"""The forms in which a prompt may be given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeAlias, TypedDict, cast

from rlgen.errors import BadInputError


class TextPrompt(TypedDict):
    """Text, tokenized with the special tokens that the tokenizer adds."""

    prompt: str


class TokensPrompt(TypedDict):
    """Token ids, used as they are."""

    prompt_token_ids: Sequence[int]


class _MessagesRequired(TypedDict):
    messages: Sequence[Mapping[str, Any]]


class MessagesPrompt(_MessagesRequired, total=False):
    """A conversation for the model's chat template, with the start of the assistant's turn."""

    tools: Sequence[Mapping[str, Any]]
    chat_template_kwargs: Mapping[str, Any]


Prompt: TypeAlias = str | Sequence[int] | TextPrompt | TokensPrompt | MessagesPrompt
_FORMS = {
    "prompt": {"prompt"},
    "prompt_token_ids": {"prompt_token_ids"},
    "messages": {"messages", "tools", "chat_template_kwargs"},
}


@dataclass(frozen=True, slots=True)
class PromptWords:
    """A prompt as the native engine takes it."""

    prompt: str | list[int]
    messages: bool = False
    tools: str = ""
    template_kwargs: str = ""

    @property
    def text(self) -> str | None:
        """The prompt where it is plain text."""
        return self.prompt if isinstance(self.prompt, str) and not self.messages else None


def is_one_prompt(prompts: object) -> bool:
    """True for a single prompt, False for a sequence of them."""
    if isinstance(prompts, str | Mapping):
        return True
    return isinstance(prompts, Sequence) and bool(prompts) and all(_is_id(item) for item in prompts)


def to_words(prompt: Prompt) -> PromptWords:
    """`prompt` for the engine. Raises BadInputError for what is none of the forms."""
    if isinstance(prompt, str):
        return PromptWords(prompt)
    if not isinstance(prompt, Mapping):
        return PromptWords(to_ids(prompt))
    for key, allowed in _FORMS.items():
        if key in prompt and not prompt.keys() - allowed:
            return _from_mapping(key, cast("Mapping[str, Any]", prompt))
    raise BadInputError(
        f"a prompt has the keys {sorted(prompt)}; it must have exactly one of {', '.join(_FORMS)} "
        "(with messages also tools, chat_template_kwargs)"
    )


def to_ids(ids: object) -> list[int]:
    """Token ids as a list of int: of a sequence, an array or a one-dimensional tensor."""
    values: Any = ids.tolist() if hasattr(ids, "tolist") else ids
    try:
        return [index(value) for value in values]
    except TypeError as error:
        raise BadInputError(f"a prompt is {str(ids)[:80]!r}; it must be text, token ids or a mapping") from error


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
    return hasattr(value, "__index__") and not isinstance(value, str)
