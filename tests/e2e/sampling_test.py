"""What sampling parameters do, seen from the output lines; table checkpoints have known answers."""

from __future__ import annotations

import math
import shutil
import unittest
from typing import Any

from harness import CHECKPOINTS, CommandLineTest, Line

DESCENDING = "table_descending"  # logits 2, 1, 0, -1 after every token
RAW = [-0.4402, -1.4402, -2.4402, -3.4402]


class Sampling(CommandLineTest):
    """One table checkpoint a test."""

    def roll(self, model: str, *options: object, **line: Any) -> Line:
        """One prompt line, its one output line."""
        for name in ("out.jsonl", "prompts.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
        result = self.generate(model, [{"prompt_token_ids": [0], **line}], *options)
        self.assertEqual(result.code, 0, result.stderr)
        return result.one()

    def test_fb001_fb003_fb004_fb005_modes(self) -> None:
        """The three modes at several temperatures, with and without a filter."""
        raw, tempered, half = RAW, -0.1451, -2.1451
        cases = [
            ({"temperature": 0.5, "logprobs_mode": "raw"}, 0, raw[0]),
            ({"temperature": 0.5, "logprobs_mode": "tempered"}, 0, tempered),
            ({"temperature": 0.5}, 1, half),
            ({"temperature": 1}, 1, raw[1]),
            ({"top_p": 0.8, "logprobs_mode": "tempered"}, 0, raw[0]),
            ({"top_p": 0.8}, 0, -0.3133),
            ({"top_p": 0.8}, 1, -1.3133),
        ]
        for parameters, token, expected in cases:
            with self.subTest(parameters=parameters, token=token):
                line = self.roll(DESCENDING, max_tokens=64, seed=3, **parameters)
                values = [v for t, v in zip(line["token_ids"], line["logprobs"], strict=True) if t == token]
                self.assertTrue(values)
                for value in values:
                    self.assertAlmostEqual(value, expected, delta=1e-4)
                self.assertEqual(line["logprobs_mode"], parameters.get("logprobs_mode", "processed"))

    def test_fb012_every_token_has_its_value(self) -> None:
        """Eight greedy tokens, eight values, none of them 0."""
        line = self.roll(DESCENDING, temperature=0, max_tokens=8)
        self.assertEqual(line["token_ids"], [0] * 8)
        for value in line["logprobs"]:
            self.assertAlmostEqual(value, RAW[0], delta=1e-4)

    def test_fb013_order_and_lengths(self) -> None:
        """5, 6 and the end, each with its own value."""
        line = self.roll("table_chain", prompt_token_ids=[4], temperature=0, max_tokens=9)
        self.assertEqual(line["token_ids"], [5, 6, 2])
        self.assertEqual(line["finish_reason"], "stop")
        self.assertFalse(line["truncated"])
        expected = [-math.log1p(15 * math.exp(-logit)) for logit in (6, 5, 4)]
        for value, wanted in zip(line["logprobs"], expected, strict=True):
            self.assertAlmostEqual(value, wanted, delta=1e-4)

    def test_fb017_stop_token_keeps_ids_and_values(self) -> None:
        """The stop id is in the ids, with its value, and is named."""
        line = self.roll("table_chain", prompt_token_ids=[3], temperature=0, stop_token_ids=[6])
        self.assertEqual(line["token_ids"], [4, 5, 6])
        self.assertEqual(len(line["logprobs"]), 3)
        self.assertEqual((line["finish_reason"], line["stop_reason"]), ("stop", 6))

    def test_fb007_fb203_top_logprobs(self) -> None:
        """Alternatives come beside the token's own value, never instead."""
        line = self.roll(DESCENDING, allowed_token_ids=[3], logprobs=2, logprobs_mode="raw", max_tokens=3)
        self.assertEqual(line["token_ids"], [3] * 3)
        for value, top in zip(line["logprobs"], line["top_logprobs"], strict=True):
            self.assertAlmostEqual(value, RAW[3], delta=1e-4)
            self.assertLessEqual(len(top), 2)
        for count in (0, 3):
            line = self.roll(DESCENDING, logprobs=count, max_tokens=2, seed=1)
            self.assertEqual(len(line["logprobs"]), 2)
            self.assertEqual([len(top) for top in line.get("top_logprobs", [[], []])], [count, count])

    def test_fb029_top_k_off(self) -> None:
        """0, -1, null and the whole vocabulary are the same."""
        lines = [self.roll(DESCENDING, seed=5, max_tokens=32, top_k=k) for k in (0, -1, None, 4, 100)]
        for line in lines[1:]:
            self.assertEqual(line["token_ids"], lines[0]["token_ids"])
            self.assertEqual(line["logprobs"], lines[0]["logprobs"])

    def test_fb028_bad_words_in_every_sample(self) -> None:
        """The banned id is in none of four samples."""
        result = self.generate(
            "table_prefers_six", [{"prompt_token_ids": [0], "n": 4, "bad_words_ids": [[6]], "max_tokens": 20}]
        )
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(len(result.lines), 4)
        for line in result.lines:
            self.assertNotIn(6, line["token_ids"])

    def test_fb024_bad_words_with_and_without_a_blank(self) -> None:
        """A word is banned in both forms; ids are banned as they are."""
        word = self.roll("table_stories", prompt_token_ids=[55], temperature=0, max_tokens=1, bad_words=["London"])
        self.assertEqual(word["token_ids"], [58])
        self.assertIn([57], word["sampling"]["bad_words_ids"])
        ids = self.roll("table_stories", prompt_token_ids=[55], temperature=0, max_tokens=1, bad_words_ids=[[56]])
        self.assertEqual(ids["token_ids"], [57])

    def test_fb031_fb033_min_tokens(self) -> None:
        """No end before min_tokens, however likely; all ends count."""
        for wanted, count in ((4, 5), (0, 1), (1, 2)):
            line = self.roll("table_eager_eos", temperature=0, min_tokens=wanted, max_tokens=9)
            self.assertEqual(len(line["token_ids"]), count)
            self.assertEqual(line["token_ids"][-1], 2)
        line = self.roll("table_two_eos", temperature=0, min_tokens=5, max_tokens=9)
        self.assertFalse({2, 9} & set(line["token_ids"][:5]))

    def test_fb035_truncated(self) -> None:
        """A length limit truncates, an end at the limit does not."""
        line = self.roll(DESCENDING, max_tokens=4)
        self.assertEqual((line["finish_reason"], line["truncated"]), ("length", True))
        line = self.roll("table_chain", prompt_token_ids=[3], temperature=0, max_tokens=4)
        self.assertEqual((line["token_ids"][-1], line["finish_reason"], line["truncated"]), (2, "stop", False))

    def test_fb036_the_last_turn_decides(self) -> None:
        """A turn's line says how that turn ended; the last one's is the trajectory's."""
        first = self.roll("table_chain", prompt_token_ids=[3], temperature=0, max_tokens=2)
        self.assertEqual((first["token_ids"], first["truncated"]), ([4, 5], True))
        turns = first["prompt_token_ids"] + first["token_ids"]
        last = self.roll("table_chain", prompt_token_ids=turns, temperature=0, max_tokens=9)
        self.assertEqual((last["token_ids"], last["finish_reason"], last["truncated"]), ([6, 2], "stop", False))
        first = self.roll("table_chain", prompt_token_ids=[3], temperature=0, stop_token_ids=[5])
        turns = first["prompt_token_ids"] + first["token_ids"]
        last = self.roll("table_chain", prompt_token_ids=turns, temperature=0, max_tokens=1)
        self.assertEqual((first["truncated"], last["finish_reason"], last["truncated"]), (False, "length", True))

    def test_fb069_ids_are_never_tokenized_again(self) -> None:
        """he, llo are two ids although their text has one; the next turn begins with just those."""
        ids = [256, 258]
        line = self.roll("llama_text", prompt_token_ids=[65, *ids], max_tokens=4, ignore_eos=True, seed=1)
        self.assertEqual(line["prompt_token_ids"], [65, *ids])
        (self.folder / "out.jsonl").unlink()
        text = self.generate("llama_text", [{"prompt": "Ahello", "max_tokens": 1, "ignore_eos": True}]).one()
        self.assertEqual(text["prompt_token_ids"], [65, 262])
        turn = line["prompt_token_ids"] + line["token_ids"]
        again = self.roll("llama_text", prompt_token_ids=turn, max_tokens=1, ignore_eos=True, seed=1)
        self.assertEqual(again["prompt_token_ids"], turn)

    def test_fb037_fb040_context(self) -> None:
        """What fits is made, and marked; a full context leaves no room and is told apart."""
        line = self.roll(DESCENDING, "--max-model-len", 64, prompt_token_ids=[0] * 63, max_tokens=512)
        self.assertEqual((len(line["token_ids"]), line["finish_reason"], line["truncated"]), (1, "length", True))
        line = self.roll(DESCENDING, "--max-model-len", 100, prompt_token_ids=[0] * 90, max_tokens=20)
        self.assertEqual((len(line["token_ids"]), line["truncated"]), (10, True))
        line = self.roll(DESCENDING, "--max-model-len", 64, prompt_token_ids=[0] * 64, max_tokens=5)
        self.assertEqual((line["token_ids"], line["truncated"], line["context_full"]), ([], False, True))

    def test_a_full_context_has_its_prompt_logprobs(self) -> None:
        """The values of a prompt do not need room for a token behind it; nor does a score."""
        prompt = [0, 1, 2, 3] * 4
        options = ("--max-model-len", 16)
        room = self.roll(DESCENDING, prompt_token_ids=prompt, prompt_logprobs=1, max_tokens=3)
        full = self.roll(DESCENDING, *options, prompt_token_ids=prompt, prompt_logprobs=1, max_tokens=3)
        self.assertEqual((full["token_ids"], full["finish_reason"], full["context_full"]), ([], "length", True))
        for key in ("prompt_logprobs", "prompt_top_logprobs"):
            self.assertEqual(full[key], room[key])
        parts: list[Line | str | bytes] = [
            {"prompt_token_ids": prompt[:cut], "token_ids": prompt[cut:], "sampling": {"prompt_logprobs": 0}}
            for cut in (1, 9, 16)
        ]
        scored = self.score(DESCENDING, self.write_prompts(parts), *options)
        self.assertEqual(scored.code, 0, scored.stderr)
        for line in scored.lines:
            self.assertEqual(line["prompt_logprobs"] + line["logprobs"], full["prompt_logprobs"])

    def test_fb047_first_token_is_the_end(self) -> None:
        """One id and finish stop, for one sample and for several."""
        result = self.generate("table_eager_eos", [{"prompt_token_ids": [0], "temperature": 0, "n": 3}])
        self.assertEqual(result.code, 0, result.stderr)
        for line in result.lines:
            self.assertEqual((line["token_ids"], line["finish_reason"]), ([2], "stop"))

    def test_fb048_padded_rows_of_the_head(self) -> None:
        """A row without a token is never drawn."""
        line = self.roll("table_padded_head", max_tokens=64, seed=1)
        self.assertNotIn(12, line["token_ids"])

    def test_fb051_gap_in_the_ids(self) -> None:
        """The highest id is usable although there are fewer tokens."""
        line = self.roll("table_gap", prompt_token_ids=[20], temperature=0, max_tokens=3, stop_token_ids=[20])
        self.assertEqual((line["token_ids"], line["stop_reason"]), ([20], 20))

    def test_fb009_confident(self) -> None:
        """Near-certain tokens have finite values."""
        line = self.roll("table_confident", max_tokens=8)
        self.assertEqual(line["token_ids"], [0] * 8)
        for value in line["logprobs"]:
            self.assertTrue(-1e-6 <= value <= 0.0)
        line = self.roll("table_confident_pair", temperature=0.1, max_tokens=8)
        self.assertTrue(all(math.isfinite(value) for value in line["logprobs"]))

    def test_prompt_logprobs(self) -> None:
        """A value for every position but the first, raw, with alternatives as asked for."""
        line = self.roll(DESCENDING, prompt_token_ids=[0, 1, 3], prompt_logprobs=1, temperature=0.5, max_tokens=1)
        self.assertIsNone(line["prompt_logprobs"][0])
        self.assertAlmostEqual(line["prompt_logprobs"][1], RAW[1], delta=1e-4)
        self.assertAlmostEqual(line["prompt_logprobs"][2], RAW[3], delta=1e-4)
        self.assertEqual(line["prompt_top_logprobs"][2][0][0], 0)

    def test_fb073_generation_config_only_when_asked(self) -> None:
        """Neutral values by default; the line shows what was in force."""
        options = {"prompt": "hello", "max_tokens": 2}
        neutral = self.roll_text(options)
        self.assertEqual(neutral["sampling"]["temperature"], 1.0)
        self.assertEqual(neutral["sampling"]["top_p"], 1.0)
        self.assertEqual(neutral["sampling"]["repetition_penalty"], 1.0)
        adopted = self.roll_text(options, "--generation-config", "model")
        self.assertEqual(adopted["sampling"]["temperature"], 0.7)
        self.assertEqual(adopted["sampling"]["top_p"], 0.8)
        self.assertEqual(adopted["sampling"]["repetition_penalty"], 1.1)
        given = self.roll_text(options, "--generation-config", "model", "--temperature", "0.25")
        self.assertEqual(given["sampling"]["temperature"], 0.25)

    def roll_text(self, line: Line, *options: object) -> Line:
        """One line on the checkpoint that has a generation_config.json."""
        (self.folder / "out.jsonl").unlink(missing_ok=True)
        return self.generate("llama_text", [line], *options).one()

    def test_fb023_stop_id_beyond_the_tokenizer(self) -> None:
        """An id that only the head knows is either refused by name or can stop; it does not break decoding."""
        model = self.folder / "model"
        shutil.copytree(CHECKPOINTS / "table_chain", model)
        line = self.roll("table_chain", prompt_token_ids=[3], temperature=0, stop_token_ids=[15])
        self.assertEqual(line["finish_reason"], "stop")


class StopStrings(CommandLineTest):
    """Stop strings on the checkpoint whose chains spell texts."""

    def story(self, start: int, *options: object, **line: Any) -> Line:
        """The greedy story after token `start`."""
        (self.folder / "out.jsonl").unlink(missing_ok=True)
        result = self.generate(
            "table_stories", [{"prompt_token_ids": [start], "temperature": 0, "max_tokens": 20, **line}], *options
        )
        self.assertEqual(result.code, 0, result.stderr)
        return result.one()

    def test_fb016_across_tokens(self) -> None:
        """Found in the middle of tokens; nothing of it is left; the ids are all there."""
        line = self.story(10, stop=["hello world"])
        self.assertEqual((line["text"], line["stop_reason"]), ("", "hello world"))
        self.assertEqual(line["token_ids"], [11, 12, 13])
        self.assertEqual(len(line["logprobs"]), 3)

    def test_fb020_inside_a_token(self) -> None:
        """The token stays whole, the text is cut, or kept when asked for."""
        line = self.story(14, stop=[".."])
        self.assertEqual((line["token_ids"], line["text"]), ([15, 16], "go"))
        line = self.story(14, stop=[".."], include_stop_str_in_output=True)
        self.assertEqual(line["text"], "go...")

    def test_fb019_stop_token_text(self) -> None:
        """A stop token has no text unless asked for; its id and value stay."""
        line = self.story(22, stop_token_ids=[2])
        self.assertEqual((line["text"], line["token_ids"]), ("look", [23, 2]))
        line = self.story(22, stop_token_ids=[2], include_stop_str_in_output=True)
        self.assertEqual(line["text"], "look<|obs|>")

    def test_fb021_special_token_as_stop_string(self) -> None:
        """Found although special tokens are not in the text."""
        line = self.story(18, stop=["<|im_end|>"])
        self.assertEqual((line["token_ids"], line["finish_reason"]), ([19, 20, 1], "stop"))

    def test_fb032_min_tokens_and_stop_strings(self) -> None:
        """A stop string before min_tokens does not count."""
        line = self.story(40, stop=["\n"], min_tokens=8)
        self.assertGreaterEqual(len(line["token_ids"]), 8)

    def test_fb064_characters_are_whole(self) -> None:
        """Bytes of several tokens are one character."""
        self.assertEqual(self.story(26)["text"], "\U0001f600!")

    def test_options_on_the_command_line(self) -> None:
        """The same through options."""
        line = self.story(10, "--stop", "zzz", "world")
        self.assertEqual((line["text"], line["stop_reason"]), ("hello ", "world"))
        line = self.story(10, "--stop", "world", "--include-stop-str-in-output", "--min-tokens", "1")
        self.assertEqual(line["text"], "hello world!")
        line = self.story(10, "--stop-token-ids", "12", "--ignore-eos")
        self.assertEqual(line["token_ids"], [11, 12])


if __name__ == "__main__":
    unittest.main()
