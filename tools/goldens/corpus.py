"""The texts that every tokenizer is tried on."""

from __future__ import annotations

import random

WRITTEN: tuple[str, ...] = (
    # plain and nearly empty
    "",
    " ",
    "a",
    "Hello world",
    " Hello world",
    "Hello world ",
    "The harbour wakes before the sun does.",
    "brutalist",
    " brutalist",
    # contractions and quotes
    "I'm you're he's we'll they'd I've don't",
    "I'M YOU'RE HE'S WE'LL THEY'D I'VE DON'T",
    "it's 'quoted' and ’s with a curly one",
    "'s 't 're 've 'm 'll 'd",
    "rock'n'roll O'Neill's",
    "''s ' s",
    "ſ's K'S",
    # digits
    "1234567",
    "1 12 123 1234 12345 123456",
    "3.14159 1,000,000 -42 +7 1e-7 0x1F",
    "٣٤٥ ৪৫৬ १२३ ①②③ ½ Ⅷ ²",
    "abc123def456",
    "12:34:56 2026-11-29",
    # white space
    "  two  spaces   three    four",
    "\n",
    "\n\n\n",
    "a\nb\r\nc\rd",
    "a \n b \n\n  c",
    "\ttab\t\ttabs",
    "trailing   \n",
    "   leading",
    " " * 40 + "x" + " " * 40,
    "x" + "\n" * 17 + "y",
    "\u00a0no-break\u00a0space\u2003em\u3000wide\u200bzero",
    "line\u2028separator\u2029paragraph\u0085next\u000bvertical\u000cform",
    "a\u2029\u2029 b",
    " \t \n \t ",
    # punctuation
    "...!?;:,--(){}[]<>/\\|@#$%^&*_+=~`",
    "wait... what?! (really) [yes] {no}",
    "— – ‐ … « » „ “ ” ‚ ‘ ’ ¿ ¡",
    "a/b\\c a//b https://example.org/a?b=c&d=e#f",
    "!\n!\r\n!//\n",
    # other scripts
    "Größe Überfluß naïve café Ångström",
    "Привет, мир! Где поезд?",
    "Γειά σου Κόσμε",
    "مرحبا بالعالم",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "你好，世界！今天天气很好。",
    "日本語のテキストとカタカナとﾊﾝｶｸ",
    "안녕하세요 세계",
    "𠀀𠮷 rare 漢字",
    "中文English混排123",
    "ǅ ǈ Ǆ ʰ ª º",
    # combining marks and normal forms
    "e\u0301 n\u0303 A\u030a",
    "é ñ Å \u212b \u2126 ﬁ",
    "o\u0302\u0323 vs o\u0323\u0302",
    "Z͑ͫ̓ͪ̂a̴l̵g̷o̸",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글",
    "क्षि ড় ਸ਼",
    "\u0301 starts with a mark",
    # emoji
    "😀",
    "😀😃😄 text 😀",
    "👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇫🇷🇩🇪",
    "❤️ ❤ ☕️ 1️⃣ #️⃣",
    "a😀b 😀c",
    # special tokens inside text
    "<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start|>assistant\n<think>\nhm\n</think>\n\nyes<|im_end|>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
    "<s>[INST] hi [/INST] hello</s>",
    "[AVAILABLE_TOOLS] [] [/AVAILABLE_TOOLS][TOOL_CALLS] [{}]",
    "a<|endoftext|>b <|endoftext|> c",
    "<|im_end|><|im_end|>",
    "<|im_end|",
    "<|IM_END|> <| im_end |>",
    '<tool_call>\n{"name": "f"}\n</tool_call>',
    "<unk><0x41><pad> <0xE4>",
    "<|bos|>x<|eos|> <tool> <|a|>  <|b|> y",
    "ïé Ġx Ċ Ġ âĢĻ",
    "▁under▁score ▁ _",
    # code and markup
    "def f(x):\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n}",
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}',
    '<div class="a">x &amp; y</div>',
    "camelCase snake_case kebab-case SCREAMING_CASE HTTPServer2Client",
    "SELECT * FROM t WHERE a='b' AND c>=1;",
    # control and edge code points
    "\u0000nul \u0001 \u001f \u007f",
    "\ufeffbom \ufffd replacement",
    "\ue000 private \U000f0000",
    "\u200f\u202eright to left\u202c",
    "\U0010ffff last",
    "\u200d joiner \u200c",
    # long
    "a" * 300,
    "ab " * 100,
    "the " * 60 + "end",
    "!" * 100,
    "9" * 50,
    "é" * 60,
    "😀" * 20,
    "the\n" * 30,
)

RANGES = (
    (0x20, 0x7F),
    (0x20, 0x7F),
    (0x09, 0x0E),
    (0xA0, 0x250),
    (0x300, 0x370),
    (0x370, 0x600),
    (0x900, 0x980),
    (0x1100, 0x1200),
    (0x2000, 0x2070),
    (0x3040, 0x3100),
    (0x4E00, 0x4F00),
    (0xAC00, 0xAD00),
    (0x1F600, 0x1F650),
)
RANDOM_TEXTS = 60


def random_text(generator: random.Random) -> str:
    """A text of up to 40 characters, drawn from a few scripts at a time."""
    scripts = generator.sample(RANGES, 3)
    characters = [generator.randrange(*generator.choice(scripts)) for _ in range(generator.randint(1, 40))]
    return "".join(" " if generator.random() < 0.15 else chr(code) for code in characters)


def corpus() -> list[str]:
    """All texts: the written ones, then random ones from a fixed seed."""
    generator = random.Random(20)
    return [*WRITTEN, *(random_text(generator) for _ in range(RANDOM_TEXTS))]
