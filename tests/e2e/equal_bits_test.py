"""Batches and single lines, scores and generations, seeds and samples: equal bits."""

from __future__ import annotations

import json
import os
import unittest

from harness import CommandLineTest, Line

MODES = ("raw", "tempered", "processed")
MIXED: list[Line] = [
    {
        "id": f"m{i}",
        "prompt_token_ids": [(7 * i + j) % 250 for j in range(1 + (5 * i) % 60)],
        "max_tokens": 4 + i % 30,
        "temperature": (0, 0.3, 0.7, 1.0, 1.7)[i % 5],
        "top_p": (1, 0.9)[i % 2],
        "top_k": (-1, 20, 3)[i % 3],
        "repetition_penalty": (1, 1.2)[i % 7 == 0],
        "logprobs": i % 3,
    }
    for i in range(64)
]
VALUES = ("token_ids", "logprobs", "top_logprobs", "text", "finish_reason", "seed")


def values(line: Line) -> Line:
    """What must have equal bits; the JSON text of a float names its bits."""
    return {key: line.get(key) for key in VALUES}


class EqualBits(CommandLineTest):
    """One small checkpoint with text."""

    def test_batch_and_single_lines(self) -> None:
        """A batch of 64, the same in steps of few rows, and one at a time, with two threads and one."""
        batch = self.generate("llama_text", [*MIXED], "--seed", 5)
        self.assertEqual(batch.code, 0, batch.stderr)
        expected = {line["id"]: values(line) for line in batch.lines}
        others = {
            "single": ("--max-num-seqs", 1),
            "chunks": ("--max-num-batched-tokens", 17, "--max-num-seqs", 9, "--block-size", 32),
            "threads": ("--threads", min(2, os.cpu_count() or 1)),
            "scalar": ("--isa", "scalar"),
            "tight": ("--kv-cache-memory-bytes", 512 * 16 * 12),
        }
        for name, options in others.items():
            with self.subTest(name=name):
                other = self.generate("llama_text", [*MIXED], "--seed", 5, *options, output=f"{name}.jsonl")
                self.assertEqual(other.code, 0, other.stderr)
                self.assertEqual({line["id"]: values(line) for line in other.lines}, expected)

    def test_a_line_alone_in_its_file(self) -> None:
        """What a line gives does not depend on the file around it."""
        batch = self.generate("llama_text", [*MIXED[:16]], "--seed", 5)
        for line in (MIXED[3], MIXED[12]):
            alone = self.generate("llama_text", [line], "--seed", 5, output=f"{line['id']}.jsonl").one()
            self.assertEqual(values(alone), values(batch.by_key()[(line["id"], 0)]))

    def test_score_equals_generate(self) -> None:
        """In all three modes, every line as it was sampled."""
        for mode in MODES:
            with self.subTest(mode=mode):
                made = self.generate(
                    "llama_text", [*MIXED], "--seed", 6, "--logprobs-mode", mode, output=f"{mode}.jsonl"
                )
                scored = self.score("llama_text", self.folder / f"{mode}.jsonl", output=f"scored-{mode}.jsonl")
                self.assertEqual(scored.code, 0, scored.stderr)
                self.assertEqual(scored.lines, made.lines)

    def test_score_in_another_mode(self) -> None:
        """The option wins over the line, and the line says so."""
        self.generate("llama_text", [*MIXED[:20]], "--seed", 6)
        raw = self.generate("llama_text", [*MIXED[:20]], "--seed", 6, "--logprobs-mode", "raw", output="raw.jsonl")
        scored = self.score("llama_text", self.folder / "out.jsonl", "--logprobs-mode", "raw")
        self.assertEqual(scored.code, 0, scored.stderr)
        expected = raw.by_key()
        for line in scored.lines:
            self.assertEqual(line["logprobs"], expected[(line["id"], line["sample"])]["logprobs"])
            self.assertEqual((line["logprobs_mode"], line["sampling"]["logprobs_mode"]), ("raw", "raw"))

    def test_score_of_samples(self) -> None:
        """Samples beyond the first score as they were drawn, errors are copied."""
        made = self.generate("llama_text", [{"prompt": "hello", "n": 3, "max_tokens": 9}, {"prompt": ""}])
        self.assertEqual(made.code, 1)
        scored = self.score("llama_text", self.folder / "out.jsonl")
        self.assertEqual(scored.code, 0, scored.stderr)
        self.assertEqual(scored.lines, made.lines)
        self.assertIn("1 line copied", scored.stderr)

    def test_score_of_a_line_whose_error_is_null(self) -> None:
        """Null is no error: the line is scored, not copied."""
        source = self.folder / "lines.jsonl"
        source.write_text(json.dumps({"prompt_token_ids": [1, 2], "token_ids": [3], "error": None}) + "\n")
        line = self.score("llama_text", source).one()
        self.assertEqual(len(line["logprobs"]), 1)

    def test_score_of_a_full_context(self) -> None:
        """A sample that had no room for a token scores as the empty list that it is."""
        made = self.generate("llama_text", [{"prompt_token_ids": [1] * 128, "n": 2, "max_tokens": 3}])
        self.assertEqual([line["token_ids"] for line in made.lines], [[], []])
        scored = self.score("llama_text", self.folder / "out.jsonl")
        self.assertEqual(scored.code, 0, scored.stderr)
        self.assertEqual(scored.lines, made.lines)

    def test_errors_do_not_depend_on_the_batch(self) -> None:
        """A sample that fails while it runs fails with the same words, wherever it stands."""
        bad = {"id": "bad", "prompt": "x", "allowed_token_ids": [5], "bad_words_ids": [[5, 5]], "max_tokens": 9}
        alone = self.generate("llama_text", [bad], "--seed", 1)
        late = self.generate("llama_text", [*MIXED[:5], bad], "--seed", 1, "--overwrite")
        self.assertEqual(late.by_key()[("bad", 0)], alone.one())

    def test_score_overwrite(self) -> None:
        """An output that is there is replaced only when asked."""
        self.generate("llama_text", [*MIXED[:2]])
        source = self.folder / "out.jsonl"
        self.assertEqual(self.score("llama_text", source).code, 0)
        self.assertEqual(self.score("llama_text", source).code, 2)
        self.assertEqual(self.score("llama_text", source, "--overwrite").code, 0)

    def test_prompt_logprobs_do_not_change_the_rest(self) -> None:
        """The same tokens and values with and without them; scored, the same prompt values."""
        plain = self.generate("llama_text", [*MIXED[:20]], "--seed", 5)
        more = self.generate(
            "llama_text", [*MIXED[:20]], "--seed", 5, "--prompt-logprobs", 2, "--logprobs", 0, output="more.jsonl"
        )
        self.assertEqual(more.code, 0, more.stderr)
        for key, line in more.by_key().items():
            self.assertEqual(line["token_ids"], plain.by_key()[key]["token_ids"])
            self.assertEqual(line["logprobs"], plain.by_key()[key]["logprobs"])
            self.assertEqual(len(line["prompt_logprobs"]), len(line["prompt_token_ids"]))
        scored = self.score("llama_text", self.folder / "more.jsonl")
        self.assertEqual(scored.lines, more.lines)


class Seeds(CommandLineTest):
    """What a seed decides."""

    def test_fb061_fb063_seeds(self) -> None:
        """Equal seeds give equal tokens, beside whatever else; other seeds give others."""
        lines: list[Line | str | bytes] = [
            {"id": str(i), "prompt_token_ids": [5], "seed": seed, "max_tokens": 20}
            for i, seed in enumerate((42, 43, 42))
        ]
        lines.append({"id": "free", "prompt_token_ids": [5], "max_tokens": 20})
        result = self.generate("llama_text", lines)
        made = {line["id"]: line for line in result.lines}
        self.assertEqual(made["0"]["token_ids"], made["2"]["token_ids"])
        self.assertNotEqual(made["0"]["token_ids"], made["1"]["token_ids"])
        self.assertEqual(made["0"]["seed"], 42)
        self.assertIsInstance(made["free"]["seed"], int)

    def test_a_lines_seed_follows_from_run_and_id(self) -> None:
        """Not from its place in the file."""
        lines: list[Line | str | bytes] = [
            {"id": name, "prompt_token_ids": [5], "max_tokens": 20} for name in ("a", "b", "c")
        ]
        first = self.generate("llama_text", lines, "--seed", 9)
        second = self.generate("llama_text", lines[::-1], "--seed", 9, output="reversed.jsonl")
        self.assertEqual(first.by_key(), second.by_key())
        self.assertEqual(len({line["seed"] for line in first.lines}), 3)
        third = self.generate("llama_text", lines, "--seed", 10, output="other.jsonl")
        self.assertNotEqual(first.by_key()[("a", 0)]["token_ids"], third.by_key()[("a", 0)]["token_ids"])

    def test_samples_differ_and_are_repeatable(self) -> None:
        """N samples are n draws; each is the same in a run with fewer lines."""
        line: Line = {"id": "x", "prompt_token_ids": [5], "n": 4, "max_tokens": 20}
        many = self.generate("llama_text", [line, {"prompt_token_ids": [6]}], "--seed", 1)
        self.assertEqual(len({json.dumps(many.by_key()[("x", i)]["token_ids"]) for i in range(4)}), 4)
        alone = self.generate("llama_text", [line], "--seed", 1, output="alone.jsonl")
        for i in range(4):
            self.assertEqual(alone.by_key()[("x", i)], many.by_key()[("x", i)])


if __name__ == "__main__":
    unittest.main()
