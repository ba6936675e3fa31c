"""The byte-level test tokenizer: small, and with the traits that break careless code.

Ids: 0 to 255 are the single bytes, each id its byte's value; 256 to 262 are merges; 263 to 269 are
free; 270 to 274 are special tokens; 275 to 279 are free; 280 to 284 are added tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.byte_alphabet import ALPHABET, spell
from models.folder import write_json

MERGES = [(b"h", b"e"), (b"l", b"l"), (b"ll", b"o"), (b" ", b"w"), (b"o", b"r"), (b"l", b"d"), (b"he", b"llo")]
FIRST_MERGE_ID = 256
SPECIAL_TOKENS = {270: "<|bos|>", 271: "<|eos|>", 272: "<|pad|>", 273: "<|im_start|>", 274: "<|im_end|>"}
ADDED_TOKENS = {
    280: AddedToken("<tool>", normalized=False),
    281: AddedToken("ïé", normalized=False),
    282: AddedToken("Ġx", normalized=False),
    283: AddedToken("<|a|>", lstrip=True, rstrip=True, normalized=False),
    284: AddedToken("<|b|>", lstrip=True, rstrip=True, normalized=False),
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_test_tokenizer() -> Tokenizer:
    """The tokenizer as the `tokenizers` library holds it."""
    vocabulary = {character: value for value, character in enumerate(ALPHABET)}
    vocabulary |= {spell(left + right): FIRST_MERGE_ID + rank for rank, (left, right) in enumerate(MERGES)}
    vocabulary |= {text: index for index, text in SPECIAL_TOKENS.items()}
    vocabulary |= {token.content: index for index, token in ADDED_TOKENS.items()}
    merges = [(spell(left), spell(right)) for left, right in MERGES]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS.values()])
    tokenizer.add_tokens(list(ADDED_TOKENS.values()))
    return tokenizer


def special_token_names() -> dict[str, str]:
    """Roles of the special tokens."""
    return {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}


def test_tokenizer_config() -> dict[str, Any]:
    """tokenizer_config.json."""
    return {
        **special_token_names(),
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 128,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write_test_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    build_test_tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", test_tokenizer_config())
    write_json(folder / "special_tokens_map.json", special_token_names())
