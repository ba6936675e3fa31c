"""64 mixed prompt lines for the demo model: texts, conversations and ids, sampled in every way."""

from __future__ import annotations

from typing import Any

Line = dict[str, Any]

OPENINGS = (
    "Once upon a time, in a village by the river,",
    "The three laws of thermodynamics are",
    "def fibonacci(n):\n    ",
    "Dear neighbour,\n\nI am writing to you because",
    "1, 1, 2, 3, 5, 8,",
    "日本の首都は",
    "Rezept für einen Kuchen:\n1.",
    "🙂",
    "A",
    "SELECT name FROM users WHERE",
    "   indented and then",
    "Q: What is the boiling point of water?\nA:",
)
QUESTIONS = (
    "What is the capital of France?",
    "Name three animals that live in the sea.",
    "Tom has 3 apples and buys 5 more. How many does he have?",
    "Say hello in four languages.",
    "Is 91 a prime number?",
    "Write one line about autumn.",
)
PARAGRAPH = (
    "The ferry crosses the bay twice a day, once before breakfast and once when the lamps are lit. Nobody counts the"
    " passengers. They sit on the long benches with their baskets and look at the water, and the captain, who is also"
    " the postman, reads the addresses of the letters aloud so that he does not have to carry them further. "
)


def prompt_of(index: int) -> Line:
    """The prompt alone: 1 to about 330 tokens, so that a few reach into the second chunk of keys."""
    kind = index % 4
    if kind == 0:
        return {"prompt": OPENINGS[index // 4 % len(OPENINGS)]}
    if kind == 1:
        turns = [{"role": "user", "content": QUESTIONS[index // 4 % len(QUESTIONS)]}]
        return {"messages": [{"role": "system", "content": "Be brief."}, *turns] if index % 8 == 1 else turns}
    if kind == 2:
        return {"prompt_token_ids": [(7919 * (index + 1) * (k + 1) + k) % 49152 for k in range(1 + 3 * index % 70)]}
    return {"prompt": PARAGRAPH * (4 if index in (11, 43) else 1) + f"On day {index} of the summer"}


def sampling_of(index: int) -> Line:
    """Parameters of a line; every kind of filter and penalty comes up, alone and with others."""
    line: Line = {
        "max_tokens": 4 + index % 9,
        "temperature": (1.0, 0.0, 0.7, 1.3, 0.25)[index % 5],
        "top_p": (1.0, 0.9, 0.5)[index % 3],
        "top_k": (-1, 40, 5, 0)[index // 2 % 4],
        "min_p": 0.05 if index % 7 == 3 else 0.0,
        "repetition_penalty": 1.2 if index % 6 == 1 else 1.0,
        "presence_penalty": 0.5 if index % 8 == 4 else 0.0,
        "frequency_penalty": -0.25 if index % 9 == 5 else 0.0,
        "logprobs": index % 4,
        "ignore_eos": index % 3 == 0,
    }
    if index % 10 == 2:
        line["logit_bias"] = {"198": 2.0, "0": -5.0}
    if index % 11 == 6:
        line["stop"] = [".", " the"]
    if index % 12 == 7:
        line["bad_words"] = ["the", "and"]
    if index % 13 == 8:
        line["min_tokens"] = 3
    if index % 16 == 9:
        line["prompt_logprobs"] = 1
    if index % 16 == 12:
        line["n"] = 2
    return line


def prompt_lines() -> list[Line]:
    """The lines; ids do not depend on how many of them a run takes."""
    return [{"id": f"line-{index}", **prompt_of(index), **sampling_of(index)} for index in range(64)]
