"""The tokenizer of a table checkpoint: any byte strings as tokens, ids with gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.byte_alphabet import spell
from models.folder import write_json


def token_bytes(token: str | dict[str, str]) -> bytes:
    """Bytes of a token given as text or as {"bytes": hexadecimal}."""
    return token.encode() if isinstance(token, str) else bytes.fromhex(token["bytes"])


def build_table_tokenizer(tokens: list[str | dict[str, str] | None], special: list[int]) -> Tokenizer:
    """Builds the tokenizer.

    Text is split as GPT-2 does; a piece that is a token becomes its id, other pieces fall apart
    into single characters, of which those without a token are dropped.

    Args:
        tokens: one entry per id; None leaves the id unused.
        special: ids of special tokens, which must be given as text.
    """
    vocabulary = {}
    for index, token in enumerate(tokens):
        if token is not None:
            text = token if index in special and isinstance(token, str) else spell(token_bytes(token))
            vocabulary[text] = index
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    contents = [str(tokens[index]) for index in special]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in contents])
    return tokenizer


def write_table_tokenizer(folder: Path, document: dict[str, Any]) -> None:
    """Writes tokenizer.json and tokenizer_config.json for a table's JSON form with "tokens"."""
    special = document.get("special", [])
    build_table_tokenizer(document["tokens"], special).save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"clean_up_tokenization_spaces": False, "tokenizer_class": "PreTrainedTokenizerFast"}
    eos = [index for index in document.get("eos", []) if index in special]
    if eos:
        config["eos_token"] = document["tokens"][eos[0]]
    write_json(folder / "tokenizer_config.json", config)
