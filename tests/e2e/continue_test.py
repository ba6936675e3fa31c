"""Prompt and partial output, sent again as one prompt, go on as the run that nobody interrupted."""

from __future__ import annotations

import unittest
from typing import Any

from harness import CommandLineTest, Line

MODEL = "llama_text"
PARAMETERS: Line = {
    "n": 2,
    "max_tokens": 40,
    "min_tokens": 35,
    "temperature": 0.9,
    "top_p": 0.95,
    "repetition_penalty": 1.2,
    "frequency_penalty": 0.4,
    "presence_penalty": -0.3,
    "bad_words_ids": [[7, 9], [11]],
    "logprobs": 2,
    "seed": 77,
}
PROMPT = [5, 9, 100, 42, 17]
CUTS = [1, 2, 7, 16, 17, 31, 36, 39, 40]


class Continue(CommandLineTest):
    """Output cut at several places, and the rest of it made again."""

    def roll(self, model: str, prompts: list[Line], *options: object, name: str = "out") -> dict[str, list[Line]]:
        """The output lines of each prompt, by sample."""
        result = self.generate(model, [*prompts], *options, output=f"{name}.jsonl")
        self.assertEqual(result.code, 0, result.stderr)
        lines: dict[str, list[Line]] = {}
        for line in sorted(result.lines, key=lambda line: line["sample"]):
            lines.setdefault(line["id"], []).append(line)
        return lines

    def test_every_cut_of_both_samples(self) -> None:
        """The rest has the ids, the bits and the end of the whole, also as prompt logprobs and a score see it."""
        whole = self.roll(MODEL, [{"id": "p", "prompt_token_ids": PROMPT, **PARAMETERS}])["p"]
        self.assertEqual(len(whole[0]["token_ids"]), 40)
        cuts: dict[str, tuple[int, int]] = {}
        prompts: list[Line] = []
        for sample in (0, 1):
            for cut in [cut for cut in CUTS if cut <= len(whole[sample]["token_ids"])]:
                name = f"{sample}/{cut}"
                cuts[name] = (sample, cut)
                ids = PROMPT + whole[sample]["token_ids"][:cut]
                prompts.append({"id": name, "prompt_token_ids": ids, "output_prefix_len": cut, **PARAMETERS})
        rests = self.roll(MODEL, prompts, name="rest")
        for name, (sample, cut) in cuts.items():
            with self.subTest(name=name):
                self.assert_rest(rests[name][sample], whole[sample], cut)
        scored = self.score(MODEL, self.folder / "rest.jsonl")
        self.assertEqual(scored.code, 0, scored.stderr)
        for line in scored.lines:
            made = rests[line["id"]][line["sample"]]
            self.assertEqual(line["logprobs"], made["logprobs"])
            self.assertEqual(line["top_logprobs"], made["top_logprobs"])

    def assert_rest(self, rest: Line, whole: Line, cut: int) -> None:
        """The rest of a line after its first ids."""
        for key in ("token_ids", "logprobs", "top_logprobs"):
            self.assertEqual(rest[key], whole[key][cut:])
        for key in ("finish_reason", "stop_reason", "truncated", "context_full", "logprobs_mode"):
            self.assertEqual(rest[key], whole[key], key)
        self.assertTrue(whole["text"].endswith(rest["text"]))
        self.assertEqual(rest["sampling"]["output_prefix_len"], cut)

    def test_same_id_and_run_seed(self) -> None:
        """Without a seed of the line, the run's seed and the id give the same draws."""
        line = {"id": "p", "prompt": "one two", "max_tokens": 20, "ignore_eos": True}
        whole = self.roll(MODEL, [line], "--seed", 3)["p"][0]
        ids = whole["prompt_token_ids"] + whole["token_ids"][:8]
        again: Line = {"id": "p", "prompt_token_ids": ids, "max_tokens": 20, "ignore_eos": True}
        rest = self.roll(MODEL, [again], "--seed", 3, "--output-prefix-len", 8, name="rest")["p"][0]
        self.assertEqual(rest["token_ids"], whole["token_ids"][8:])
        self.assertEqual(rest["logprobs"], whole["logprobs"][8:])

    def test_context_full(self) -> None:
        """The end of the context is the same end."""
        line: Line = {"id": "p", "prompt_token_ids": PROMPT, "max_tokens": 99, "ignore_eos": True, "seed": 1}
        options = ("--max-model-len", 32)
        whole = self.roll(MODEL, [line], *options)["p"][0]
        self.assertEqual((len(whole["token_ids"]), whole["context_full"], whole["truncated"]), (27, True, True))
        for cut in (1, 26, 27):
            ids = PROMPT + whole["token_ids"][:cut]
            again = line | {"prompt_token_ids": ids, "output_prefix_len": cut}
            rest = self.roll(MODEL, [again], *options, name=f"rest{cut}")["p"][0]
            for key in ("token_ids", "logprobs"):
                self.assertEqual(rest[key], whole[key][cut:])
            for key in ("finish_reason", "truncated", "context_full"):
                self.assertEqual(rest[key], whole[key], key)

    def test_stop_string_across_the_border(self) -> None:
        """It is found wherever the output is cut, and the text ends where it ended."""
        cases: list[dict[str, Any]] = [
            {"start": 10, "stop": ["hello world"]},
            {"start": 10, "stop": ["lo wor"]},
            {"start": 10, "stop": ["world"], "include_stop_str_in_output": True},
            {"start": 18, "stop": ["sir<|im_end|>"]},
            {"start": 26, "stop": ["\U0001f600!"]},
            {"start": 40, "stop": ["two three"], "min_tokens": 2},
            {"start": 40, "stop": ["never"]},
        ]
        prompts: list[Line] = []
        for number, case in enumerate(cases):
            start = case.pop("start")
            prompts.append({"id": str(number), "prompt_token_ids": [start], "temperature": 0, "max_tokens": 20, **case})
        whole = {name: lines[0] for name, lines in self.roll("table_stories", prompts).items()}
        parts: list[Line] = []
        for prompt in prompts:
            made = whole[prompt["id"]]["token_ids"]
            for cut in range(1, len(made) + 1):
                name = f"{prompt['id']}/{cut}"
                ids = prompt["prompt_token_ids"] + made[:cut]
                rest = prompt | {"id": name, "prompt_token_ids": ids, "output_prefix_len": cut}
                parts.append(rest)
        for name, lines in self.roll("table_stories", parts, name="rest").items():
            with self.subTest(name=name):
                number, cut = name.split("/")
                self.assert_rest_of_story(lines[0], whole[number], int(cut))

    def assert_rest_of_story(self, rest: Line, whole: Line, cut: int) -> None:
        """Ids, end and text of the rest."""
        self.assertEqual(rest["token_ids"], whole["token_ids"][cut:])
        self.assertEqual(rest["logprobs"], whole["logprobs"][cut:])
        for key in ("finish_reason", "stop_reason"):
            self.assertEqual(rest[key], whole[key], key)
        self.assertTrue(whole["text"].endswith(rest["text"]))
        stopped = whole["finish_reason"] == "stop" and whole["stop_reason"] is not None
        if stopped and not whole["sampling"]["include_stop_str_in_output"]:
            self.assertNotIn(whole["stop_reason"], rest["text"])

    def test_more_than_the_prompt(self) -> None:
        """An error that names both numbers; so does a negative one."""
        result = self.generate(
            MODEL,
            [
                {"id": "long", "prompt_token_ids": [1, 2], "output_prefix_len": 3},
                {"id": "negative", "prompt_token_ids": [1, 2], "output_prefix_len": -1},
            ],
        )
        self.assertEqual(result.code, 1)
        errors = {line["id"]: line["error"]["message"] for line in result.lines}
        self.assertEqual(errors["long"], "output_prefix_len is 3; it must be at most 2, the tokens of the prompt")
        self.assertIn("output_prefix_len is -1", errors["negative"])


if __name__ == "__main__":
    unittest.main()
