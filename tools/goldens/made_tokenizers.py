"""Small tokenizers with the structure of well-known ones, trained on a page of text.

Vocabularies are our own and tiny; normalizers, pre-tokenizers, added tokens, post-processors and
decoders are arranged as in the families named, since that is where implementations differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from models.test_tokenizer import build_test_tokenizer

MERGES = 420
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3_SPLIT = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN_SPLIT = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|finetune_right_pad_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
QWEN_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|vision_pad|>")
QWEN_ADDED = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
MISTRAL_SPECIAL = (
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
)


def special(*texts: str) -> list[AddedToken]:
    """Special tokens that match their text anywhere."""
    return [AddedToken(text, special=True, normalized=False) for text in texts]


def train_byte_level(split: pre_tokenizers.PreTokenizer, training: Path, ignore_merges: bool = False) -> Tokenizer:
    """Trains a byte-level BPE on the lines of `training`, cut by `split`."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + MERGES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(training.read_text(encoding="utf-8").splitlines(keepends=True), trainer)
    return tokenizer


def regex_then_bytes(pattern: str) -> pre_tokenizers.PreTokenizer:
    """Splits by `pattern`, then maps bytes to their stand-ins."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def starts_with(tokenizer: Tokenizer, token: str) -> processors.TemplateProcessing:
    """Puts `token` before every text."""
    return processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1", special_tokens=[(token, tokenizer.token_to_id(token))]
    )


def llama3(training: Path) -> Tokenizer:
    """As in Llama 3: digits in threes, whole pieces before merges, a first token."""
    tokenizer = train_byte_level(regex_then_bytes(LLAMA3_SPLIT), training, ignore_merges=True)
    tokenizer.add_special_tokens(special(*LLAMA3_SPECIAL))
    first = starts_with(tokenizer, "<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), first])
    return tokenizer


def qwen(training: Path) -> Tokenizer:
    """As in Qwen2, 2.5 and 3: composed normal form, single digits, added tokens that are not special."""
    tokenizer = train_byte_level(regex_then_bytes(QWEN_SPLIT), training)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special(*QWEN_SPECIAL))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in QWEN_ADDED])
    return tokenizer


def mistral_tekken(training: Path) -> Tokenizer:
    """As in Mistral's later byte-level tokenizer: split by letter case, a first token."""
    tokenizer = train_byte_level(regex_then_bytes(TEKKEN_SPLIT), training, ignore_merges=True)
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>", *MISTRAL_SPECIAL))
    tokenizer.post_processor = starts_with(tokenizer, "<s>")
    return tokenizer


def frequent_characters(lines: list[str], count: int) -> list[str]:
    """The `count` most frequent characters, the lower code point first where two are equal."""
    totals = Counter(character for line in lines for character in line.replace(" ", "▁"))
    return sorted(totals, key=lambda character: (-totals[character], character))[:count]


def train_byte_fallback(training: Path) -> Tokenizer:
    """A BPE over characters with a marker for blanks, byte tokens for what it has not seen."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    lines = training.read_text(encoding="utf-8").splitlines()
    alphabet = frequent_characters(lines, 90)
    trainer = trainers.BpeTrainer(
        vocab_size=90 + MERGES, initial_alphabet=alphabet, limit_alphabet=90, show_progress=False
    )
    learner.train_from_iterator(lines, trainer)
    learned = learner.get_vocab()
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    pieces += sorted(learned, key=learned.__getitem__)
    merges = learned_merges(learner)
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>", *MISTRAL_SPECIAL))
    tokenizer.post_processor = starts_with(tokenizer, "<s>")
    return tokenizer


def learned_merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """The merges of a trained BPE, best first."""
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def mistral_legacy(training: Path) -> Tokenizer:
    """As in Llama 2 and Mistral 7B: blanks are replaced by a normalizer, no pre-tokenizer."""
    tokenizer = train_byte_fallback(training)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def mistral_metaspace(training: Path) -> Tokenizer:
    """As in Mistral 7B v0.3: blanks are replaced by a pre-tokenizer, before the first word only."""
    tokenizer = train_byte_fallback(training)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def mixed(training: Path) -> Tokenizer:
    """A long pre-tokenizer sequence, one part of it a literal that looks like an expression."""
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(r"\p{N}", behavior="removed"),
            pre_tokenizers.Split("'s", behavior="isolated"),
            pre_tokenizers.Punctuation(behavior="contiguous"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True),
        ]
    )
    return train_byte_level(split, training)


def byte_level(training: Path) -> Tokenizer:
    """The byte-level test tokenizer, which needs no training."""
    del training
    return build_test_tokenizer()


MAKERS: dict[str, Callable[[Path], Tokenizer]] = {
    "byte_level": byte_level,
    "llama3": llama3,
    "mistral_legacy": mistral_legacy,
    "mistral_metaspace": mistral_metaspace,
    "mistral_tekken": mistral_tekken,
    "mixed": mixed,
    "qwen": qwen,
}
