"""Which experts the tokens used, in rollout files, and routes that are given."""

from __future__ import annotations

import base64
import json
import unittest
from typing import Any

from harness import CommandLineTest, Line

MODEL = "qwen3_moe"
RECORD = "--enable-return-routed-experts"
PROMPTS: list[Line | str | bytes] = [
    {"id": "a", "prompt_token_ids": [5, 9, 30, 42, 17], "max_tokens": 6, "seed": 3, "ignore_eos": True},
    {"id": "b", "prompt_token_ids": [(7 * i) % 90 for i in range(40)], "max_tokens": 4, "seed": 4, "n": 2},
]


def decode(line: Line) -> list[list[list[int]]]:
    """The routes of a line as nested lists."""
    magic, name, shape, content = line["routed_experts"].split(":")
    assert (magic, name) == ("nrlre1", "int8")
    rows, layers, slots = map(int, shape.split("x"))
    ids = [byte - 256 if byte > 127 else byte for byte in base64.b64decode(content, validate=True)]
    assert len(ids) == rows * layers * slots
    tokens = [ids[at : at + layers * slots] for at in range(0, len(ids), layers * slots)]
    return [[token[at : at + slots] for at in range(0, layers * slots, slots)] for token in tokens]


class Routes(CommandLineTest):
    """On a tiny model with experts."""

    def rolled(self, *options: object, name: str = "out") -> dict[tuple[str, int | None], Line]:
        """The output lines."""
        result = self.generate(MODEL, PROMPTS, RECORD, "--seed", 1, *options, output=f"{name}.jsonl")
        self.assertEqual(result.code, 0, result.stderr)
        return result.by_key()

    def test_fb236_a_row_for_every_token_but_the_last(self) -> None:
        """In the text and in nested lists, which are the same; whatever the engine does."""
        lines = self.rolled()
        for line in lines.values():
            self.assertEqual(len(decode(line)), len(line["prompt_token_ids"]) + len(line["token_ids"]) - 1)
        lists = self.rolled("--routed-experts-format", "list", name="lists")
        chunks = self.rolled("--max-num-batched-tokens", 7, "--threads", 2, name="chunks")
        for key, line in lines.items():
            self.assertEqual(lists[key]["routed_experts"], decode(line))
            self.assertEqual(chunks[key], line)
        plain = self.generate(MODEL, PROMPTS, output="plain.jsonl").by_key()
        for key, line in plain.items():
            self.assertNotIn("routed_experts", line)
            self.assertEqual(line["logprobs"], lines[key]["logprobs"])

    def test_rows_from_a_later_token_on(self) -> None:
        """Those of earlier tokens are left out."""
        whole = self.rolled()
        for key, line in self.rolled("--routed-experts-prompt-start", 4, name="rest").items():
            self.assertEqual(decode(line), decode(whole[key])[4:])

    def test_all_layers(self) -> None:
        """Those with experts, and the dummy route elsewhere."""
        lines = self.rolled()
        for key, line in self.rolled("--routed-experts-layers", "all", name="all").items():
            for all_layers, layers in zip(decode(line), decode(lines[key]), strict=True):
                dummy = list(range(len(layers[0])))
                self.assertEqual([slots for slots in all_layers if slots != dummy], [s for s in layers if s != dummy])

    def test_replay(self) -> None:
        """A score of the lines' own routes has their bits; others give others; a prompt line takes them too."""
        lines = self.rolled()
        scored = self.score(MODEL, self.folder / "out.jsonl", "--replay-routed-experts", RECORD)
        self.assertEqual(scored.code, 0, scored.stderr)
        for line in scored.lines:
            self.assertEqual(line, lines[line["id"], line["sample"]])
        again: Any = {**lines["a", 0]["sampling"], "id": "a", "prompt_token_ids": lines["a", 0]["prompt_token_ids"]}
        again["routed_experts"] = lines["a", 0]["routed_experts"]
        made = self.generate(MODEL, [again], RECORD, output="again.jsonl").one()
        self.assertEqual(made["logprobs"], lines["a", 0]["logprobs"])
        odd = {**lines["a", 0], "routed_experts": [[list(range(len(s))) for s in row] for row in decode(lines["a", 0])]}
        (self.folder / "odd.jsonl").write_text(json.dumps(odd) + "\n")
        other = self.score(MODEL, self.folder / "odd.jsonl", "--replay-routed-experts", output="other.jsonl")
        self.assertEqual(other.code, 0, other.stderr)
        self.assertNotEqual(other.one()["logprobs"], lines["a", 0]["logprobs"])
        self.assertEqual(other.one()["routed_experts"], odd["routed_experts"])

    def test_routes_that_cannot_be(self) -> None:
        """The line fails alone and its error names token and layer."""
        line = self.rolled()["a", 0]
        twice = decode(line)
        twice[2][0][1] = twice[2][0][0]
        bad = [{**line, "routed_experts": twice}, {**line, "routed_experts": "x"}, {**line}]
        del bad[2]["routed_experts"]
        (self.folder / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*bad, line]))
        result = self.score(MODEL, self.folder / "bad.jsonl", "--replay-routed-experts")
        self.assertEqual(result.code, 1, result.stderr)
        messages = [one["error"]["message"] for one in result.lines[:3]]
        self.assertIn("token 2, layer 0 names expert", messages[0])
        self.assertIn("malformed", messages[1])
        self.assertIn('"routed_experts" is missing', messages[2])
        self.assertEqual(result.lines[3]["logprobs"], line["logprobs"])

    def test_fb237_a_model_without_experts(self) -> None:
        """Is refused by name, and a run without routes is not resumed with them."""
        self.assert_one_error(self.generate("llama_text", PROMPTS, RECORD), 2, RECORD, "no experts")
        self.generate(MODEL, PROMPTS, output="plain.jsonl")
        resumed = self.generate(MODEL, PROMPTS, RECORD, "--resume", output="plain.jsonl")
        self.assert_one_error(resumed, 1, "cannot resume", RECORD)


if __name__ == "__main__":
    unittest.main()
