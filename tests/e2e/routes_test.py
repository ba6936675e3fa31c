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
        odd["routed_experts"] = [[[-1] * len(s) for s in row] for row in odd["routed_experts"]]
        (self.folder / "odd.jsonl").write_text(json.dumps(odd) + "\n")
        router = self.score(MODEL, self.folder / "odd.jsonl", "--replay-routed-experts", RECORD, output="router.jsonl")
        self.assertEqual(router.one(), lines["a", 0])

    def test_routes_that_cannot_be(self) -> None:
        """The line fails alone and its error names token and layer."""
        line = self.rolled()["a", 0]
        faults = (lambda slots: slots[0], lambda slots: 8, lambda slots: -1)
        bad = []
        for fault in faults:
            routes = decode(line)
            routes[2][0][1] = fault(routes[2][0])
            bad.append({**line, "routed_experts": routes})
        bad += [{**line, "routed_experts": "x"}, {**line}]
        del bad[4]["routed_experts"]
        (self.folder / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*bad, line]))
        result = self.score(MODEL, self.folder / "bad.jsonl", "--replay-routed-experts")
        self.assertEqual(result.code, 1, result.stderr)
        messages = [one["error"]["message"] for one in result.lines[:5]]
        for message, part in zip(messages, ("twice", "names expert 8", "has 1 of 3 slots at -1"), strict=False):
            self.assertIn("token 2, layer 0", message)
            self.assertIn(part, message)
        self.assertIn("malformed", messages[3])
        self.assertIn('"routed_experts" is missing', messages[4])
        self.assertEqual(result.lines[5]["logprobs"], line["logprobs"])

    def test_fb237_a_model_without_experts(self) -> None:
        """Is refused by name."""
        self.assert_one_error(self.generate("llama_text", PROMPTS, RECORD), 2, RECORD, "no experts")

    def check_resume(self, options: tuple[object, ...], *parts: str, prompts: list[Any] = PROMPTS) -> None:
        """Resuming out.jsonl so is refused, and the file stays as it is."""
        before = (self.folder / "out.jsonl").read_bytes()
        resumed = self.generate(MODEL, prompts, "--seed", 1, "--resume", *options)
        self.assert_one_error(resumed, 1, "cannot resume", *parts)
        self.assertEqual((self.folder / "out.jsonl").read_bytes(), before)

    def test_resume_with_other_routes_is_refused(self) -> None:
        """Recorded or not, of other layers, in another format: the file would be two runs."""
        self.generate(MODEL, PROMPTS, "--seed", 1)
        self.check_resume((RECORD,), f"without {RECORD}")
        self.rolled("--overwrite")
        self.check_resume((), f"with {RECORD}")
        self.check_resume((RECORD, "--routed-experts-layers", "all"), "--routed-experts-layers moe, not all")
        self.check_resume((RECORD, "--routed-experts-format", "list"), "--routed-experts-format base64, not list")
        self.check_resume((RECORD, "--routed-experts-prompt-start", 2), "routed_experts_prompt_start was 0 and is 2")
        self.rolled("--overwrite", "--routed-experts-layers", "all", "--routed-experts-format", "list")
        self.check_resume((RECORD, "--routed-experts-format", "list"), "--routed-experts-layers all, not moe")
        same = ("--routed-experts-layers", "all", "--routed-experts-format", "list", "--resume")
        before = (self.folder / "out.jsonl").read_bytes()
        self.rolled(*same)
        self.assertEqual((self.folder / "out.jsonl").read_bytes(), before)

    def test_resume_with_other_given_routes_is_refused(self) -> None:
        """Those of the prompt lines are part of what was run, recorded or not."""
        routes = decode(self.rolled(name="free")["b", 0])
        given: list[Any] = [PROMPTS[0], {**PROMPTS[1], "routed_experts": routes}]  # type: ignore[dict-item]
        made = self.generate(MODEL, given, "--seed", 1)
        self.assertEqual(made.code, 0, made.stderr)
        self.assertNotIn("given_routed_experts", made.by_key()["a", 0])
        self.assertEqual(len(made.by_key()["b", 1]["given_routed_experts"]), 32)
        self.check_resume((), "prompt \"b\"", "given routed_experts differ")
        other = [[slots[::-1] for slots in row] for row in routes]
        changed: list[Any] = [PROMPTS[0], {**given[1], "routed_experts": other}]
        self.check_resume((), "prompt \"b\"", "given routed_experts differ", prompts=changed)
        again = self.generate(MODEL, given, "--seed", 1, "--resume")
        self.assertEqual(again.code, 0, again.stderr)
        self.assertEqual(again.lines, made.lines)


if __name__ == "__main__":
    unittest.main()
