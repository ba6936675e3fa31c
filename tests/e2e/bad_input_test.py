"""Every kind of bad input gets one clear error, and the lines beside it are served."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

from harness import CHECKPOINTS, TIMEOUT, CommandLineTest, Line, read_lines

GOOD: Line = {"id": "good", "prompt_token_ids": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}
LAST: Line = {"id": "last", "prompt": "hello", "max_tokens": 4, "ignore_eos": True}


class BadLines(CommandLineTest):
    """A bad prompt line between two good ones."""

    def error_of(self, bad: Line | str | bytes, *options: object) -> Line:
        """Runs the three lines; the bad one's error."""
        (self.folder / "out.jsonl").unlink(missing_ok=True)
        result = self.generate("llama_text", [GOOD, bad, LAST], *options)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("1 line failed", result.stderr)
        self.assertEqual(len(result.lines), 3, result.stderr)
        lines = {line["id"]: line for line in result.lines}
        for name in ("good", "last"):
            self.assertEqual(len(lines[name]["token_ids"]), 4)
        (failed,) = (line for line in result.lines if "error" in line)
        self.assertEqual(failed["finish_reason"], "error")
        self.assertNotIn("logprobs", failed)
        self.assertEqual(failed["input_line"], 1)
        return failed["error"]

    def check(self, bad: Line | str | bytes, *parts: str) -> None:
        """The error is a bad argument and says `parts`."""
        error = self.error_of(bad)
        self.assertEqual(error["code"], "invalid_argument")
        for part in parts:
            self.assertIn(part, error["message"])

    def test_fb044_empty_prompt(self) -> None:
        """Empty text."""
        self.check({"prompt": ""}, "prompt is empty")

    def test_fb045_empty_ids(self) -> None:
        """An empty list of ids fails alone."""
        self.check({"prompt_token_ids": []}, "prompt_token_ids is empty")

    def test_empty_messages(self) -> None:
        """A conversation without messages."""
        self.check({"messages": []}, "messages is empty")

    def test_max_tokens(self) -> None:
        """Zero tokens cannot be asked for."""
        self.check({"prompt": "x", "max_tokens": 0}, "max_tokens is 0")

    def test_negative_max_tokens(self) -> None:
        """Nor fewer."""
        self.check({"prompt": "x", "max_tokens": -17}, "max_tokens is -17")

    def test_temperature(self) -> None:
        """A temperature below zero."""
        self.check({"prompt": "x", "temperature": -0.5}, "temperature is -0.5")

    def test_temperature_nan(self) -> None:
        """JSON has no NaN."""
        self.check('{"prompt": "x", "temperature": NaN}', "JSON")

    def test_top_p(self) -> None:
        """Outside of (0, 1]."""
        self.check({"prompt": "x", "top_p": 0}, "top_p is 0")

    def test_top_p_above(self) -> None:
        """On the other side."""
        self.check({"prompt": "x", "top_p": 1.5}, "top_p is 1.5")

    def test_fb029_top_k(self) -> None:
        """-1 and 0 are off, -2 is wrong."""
        self.check({"prompt": "x", "top_k": -2}, "top_k is -2")

    def test_unknown_key(self) -> None:
        """A slip gets a suggestion."""
        self.check({"prompt": "x", "temprature": 1}, "temprature", "did you mean", "temperature")

    def test_malformed(self) -> None:
        """No JSON at all."""
        self.check('{"prompt": "x"', "JSON", "column")

    def test_invalid_utf8(self) -> None:
        """Bytes that are no text."""
        self.check(b'{"prompt": "\xff\xfe"}', "UTF-8", "byte 12")

    def test_token_id(self) -> None:
        """An id that the vocabulary does not have."""
        self.check({"prompt_token_ids": [1, 2, 100000]}, "prompt_token_ids[2]", "100000")

    def test_negative_token_id(self) -> None:
        """An id below zero."""
        self.check({"prompt_token_ids": [-1]}, "prompt_token_ids[0]", "-1")

    def test_two_prompts(self) -> None:
        """Only one kind of prompt a line."""
        self.check({"prompt": "x", "prompt_token_ids": [1]}, "exactly one")

    def test_id_twice(self) -> None:
        """The second line of an id fails."""
        self.check({"id": "good", "prompt": "x"}, "good", "before")

    def test_no_template(self) -> None:
        """Messages for a model without a chat template: none is made up."""
        result = self.generate("table_stories", [{"messages": [{"role": "user", "content": "x"}]}])
        self.assertEqual(result.code, 1)
        self.assertIn("chat template", result.one()["error"]["message"])

    def test_template_arguments_that_nothing_reads(self) -> None:
        """The template of this model has neither tools nor switches."""
        messages = [{"role": "user", "content": "x", "tools": 1}]
        tool = {"type": "function", "function": {"name": "f"}}
        self.check({"messages": messages, "tools": [tool]}, "tools: the chat template")
        self.check(
            {"messages": messages, "chat_template_kwargs": {"enable_thinking": False}},
            "chat_template_kwargs.enable_thinking: the chat template",
        )

    def test_tiny_temperature(self) -> None:
        """The least one is named; a number that only float64 can be is none."""
        self.check({"prompt": "x", "temperature": 1e-37, "logprobs_mode": "tempered"}, "temperature is 1e-37", "1e-30")
        self.check({"prompt": "x", "temperature": 1e-60}, "temperature is 1e-60")

    def test_fb027_nothing_left(self) -> None:
        """Every allowed id is banned."""
        self.check({"prompt": "x", "allowed_token_ids": [5], "bad_words_ids": [[5]]}, "bad_words_ids")

    def test_fb039_fb041_prompt_too_long(self) -> None:
        """The code says what it is, the message has both numbers."""
        error = self.error_of({"prompt_token_ids": [1] * 273})
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("273", error["message"])
        self.assertIn("128", error["message"])

    def test_fb039_the_same_code_for_text(self) -> None:
        """Text that is too long has the same code."""
        self.assertEqual(self.error_of({"prompt": "x" * 500})["code"], "context_length_exceeded")

    def test_samples_without_end(self) -> None:
        """More samples than any machine has memory for fail alone."""
        self.check({"prompt": "x", "n": 2147483647}, "n is 2147483647")

    def test_deep_nesting(self) -> None:
        """A line that would eat the stack."""
        self.check('{"messages": ' + "[" * 20000 + "]" * 20000 + "}", "nests")

    def test_blank_lines_are_no_prompts(self) -> None:
        """They are passed over, and numbered."""
        result = self.generate("llama_text", ["", {"prompt": "x", "max_tokens": 1}, "  "])
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(result.one()["id"], "1")


class BadRuns(CommandLineTest):
    """What concerns the run as a whole."""

    def refuse(self, code: int, parts: tuple[str, ...], *arguments: object) -> None:
        """The command fails with one line that has `parts`."""
        self.assert_one_error(self.run_rlgen(*arguments), code, *parts)

    def test_prompts_missing(self) -> None:
        """No such file of prompts."""
        model = CHECKPOINTS / "llama_text"
        self.refuse(
            1, ("nowhere.jsonl",), "generate", "--model", model, "--prompts", "nowhere.jsonl", "--output", "o.jsonl"
        )

    def changed_model(self, **changes: object) -> Path:
        """A copy of a checkpoint with other keys in its config.json."""
        folder = self.folder / "model"
        shutil.copytree(CHECKPOINTS / "llama_text", folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        return folder

    def test_unknown_family(self) -> None:
        """The family is named."""
        model = self.changed_model(model_type="martian", architectures=["MartianForCausalLM"])
        self.refuse(1, ("martian",), "generate", "--model", model, "--prompt", "x")

    def test_unknown_config_key(self) -> None:
        """A key that changes the arithmetic and is not implemented is named."""
        model = self.changed_model(attn_logit_softcapping=30.0)
        self.refuse(1, ("attn_logit_softcapping",), "generate", "--model", model, "--prompt", "x")

    def test_tokenizer_missing(self) -> None:
        """Text needs one; token ids do not, and then there is no text."""
        result = self.generate(
            "llama", [{"id": "t", "prompt": "x"}, {"prompt_token_ids": [1], "max_tokens": 2, "ignore_eos": True}]
        )
        self.assertEqual(result.code, 1)
        lines = {line["id"]: line for line in result.lines}
        self.assertIn("tokenizer", lines["t"]["error"]["message"])
        self.assertIsNone(lines["1"]["text"])
        self.assertEqual(len(lines["1"]["token_ids"]), 2)

    def test_stop_string_without_tokenizer(self) -> None:
        """A stop string cannot be found without a tokenizer: an error, not a run that ignores it."""
        result = self.generate("llama", [{"prompt_token_ids": [1], "max_tokens": 2, "stop": ["x"]}])
        self.assertEqual(result.code, 1)
        self.assertIn("stop", result.one()["error"]["message"])

    def test_output_exists(self) -> None:
        """Neither replaced nor added to without a word."""
        self.assertEqual(self.generate("llama_text", [GOOD]).code, 0)
        before = (self.folder / "out.jsonl").read_bytes()
        result = self.generate("llama_text", [GOOD])
        self.assert_one_error(result, 2, "out.jsonl", "--resume", "--overwrite")
        self.assertEqual((self.folder / "out.jsonl").read_bytes(), before)
        self.assertEqual(self.generate("llama_text", [GOOD], "--overwrite").code, 0)

    def test_output_is_the_input(self) -> None:
        """What is to be read is never destroyed, under whatever name."""
        prompts = self.write_prompts([GOOD])
        before = prompts.read_bytes()
        link = self.folder / "link"
        link.symlink_to(prompts)
        model = ("--model", CHECKPOINTS / "llama_text")
        for output in (prompts, link):
            for option in ("--overwrite", "--resume"):
                run = ("generate", *model, "--prompts", prompts, "--output", output, option)
                self.refuse(2, ("--output", "--prompts"), *run)
            self.refuse(
                2, ("--output", "--input"), "score", *model, "--input", prompts, "--output", output, "--overwrite"
            )
        self.assertEqual(prompts.read_bytes(), before)

    def test_pipe(self) -> None:
        """A pipe can be read once; nothing of it is lost."""
        line = json.dumps(GOOD) + "\n"
        command = self.command(
            *("generate", "--model", CHECKPOINTS / "llama_text", "--threads", 1),
            *("--prompts", "/dev/stdin", "--output", self.folder / "piped"),
        )
        done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one["id"] for one in read_lines(self.folder / "piped")], ["good"])

    def test_folders_and_pipes_in_the_place_of_files(self) -> None:
        """Each is an error that names the file; nobody waits for a pipe that is part of a model."""
        prompts = self.write_prompts([GOOD])
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            for kind in ("folder", "pipe"):
                with self.subTest(name=name, kind=kind):
                    model = self.folder / f"{kind}-{name}"
                    shutil.copytree(CHECKPOINTS / "llama_text", model)
                    (model / name).unlink()
                    if kind == "folder":
                        (model / name).mkdir()
                    else:
                        os.mkfifo(model / name)
                    run = ("generate", "--model", model, "--prompts", prompts, "--output", self.folder / "o")
                    self.refuse(1, (name,), *run)
        run = ("generate", "--model", CHECKPOINTS / "llama_text", "--output", self.folder / "o")
        self.refuse(1, ("is a folder",), *run, "--prompts", self.folder)

    def test_named_pipe_of_prompts(self) -> None:
        """A named pipe is read like a file."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        command = self.command(
            *("generate", "--model", CHECKPOINTS / "llama_text", "--threads", 1),
            *("--prompts", pipe, "--output", self.folder / "piped"),
        )
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            pipe.write_text(json.dumps(GOOD) + "\n")
            self.assertEqual(running.wait(TIMEOUT), 0)
        self.assertEqual([one["id"] for one in read_lines(self.folder / "piped")], ["good"])

    def test_file_without_line_ends(self) -> None:
        """A file that never ends a line is refused before it eats the memory."""
        model = CHECKPOINTS / "llama_text"
        run = ("generate", "--model", model, "--prompts", "/dev/zero", "--output", self.folder / "o")
        self.refuse(1, ("/dev/zero", "longer"), *run)

    def test_prompt_that_is_no_text(self) -> None:
        """Bytes on the command line that are no UTF-8."""
        for extra in ((), ("--chat",)):
            command = [*map(os.fsencode, self.command("generate", "--model", CHECKPOINTS / "llama_text", *extra))]
            done = subprocess.run([*command, b"--prompt", b"a\xff"], capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual((done.returncode, done.stderr), (2, b"rlgen: --prompt is not UTF-8 at byte 1\n"))

    def run_in_shell(self, prompts: Path, redirection: str, before: str = "") -> int:
        """Rolls the prompts out into the file out, with the streams that the shell leaves open."""
        command = self.command(
            *("generate", "--model", CHECKPOINTS / "llama_text", "--threads", 1, "--prompts", prompts),
            *("--output", self.folder / "out", "--overwrite", "--seed", 1),
        )
        text = f"{before} {shlex.join(command)} {redirection}"
        return subprocess.run(["bash", "-c", text], capture_output=True, timeout=TIMEOUT, check=False).returncode

    def test_streams_that_are_closed_or_full(self) -> None:
        """Whatever becomes of standard error, the rollouts are whole and nothing else is among them."""
        prompts = self.write_prompts([GOOD, {"prompt": ""}, LAST])
        for redirection in ("2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-", "2>/dev/full", "2> >(exit)"):
            with self.subTest(redirection=redirection):
                self.assertEqual(self.run_in_shell(prompts, redirection), 1)
                lines = read_lines(self.folder / "out")
                self.assertEqual(sorted(line["id"] for line in lines), ["1", "good", "last"])

    def test_file_size_limit(self) -> None:
        """A file at the limit of its size is an error like a full disk: whole lines stay."""
        prompts = self.write_prompts([GOOD | {"id": str(i)} for i in range(9)])
        self.assertEqual(self.run_in_shell(prompts, "", "ulimit -f 4;"), 1)
        self.assertGreater(len(read_lines(self.folder / "out")), 1)

    def test_disk_full(self) -> None:
        """Writing fails: an error and exit code 1."""
        prompts = self.write_prompts([GOOD])
        model = CHECKPOINTS / "llama_text"
        self.refuse(
            1,
            ("/dev/full", "space"),
            *("generate", "--model", model, "--prompts", prompts, "--output", "/dev/full", "--overwrite"),
        )

    def test_fb015_non_finite_logits(self) -> None:
        """The sample fails and says why, for every seed; no token is made up."""
        for seed in (1, 2):
            result = self.generate(
                "table_nan",
                [{"prompt_token_ids": [0], "max_tokens": 4, "temperature": 0.7, "seed": seed}],
                output=f"nan{seed}.jsonl",
            )
            self.assertEqual(result.code, 1)
            line = result.one()
            self.assertIn("finite", line["error"]["message"])
            self.assertEqual(line["token_ids"], [])
            self.assertEqual(line["logprobs"], [])


class BadScores(CommandLineTest):
    """Bad lines of score."""

    def test_each_fails_alone(self) -> None:
        """What is missing or wrong is named; order and other keys stay."""
        bad: list[Line | str | bytes] = [
            {"id": "a", "token_ids": [1]},
            {"id": "b", "prompt_token_ids": [1]},
            {"id": "c", "prompt_token_ids": [1], "token_ids": [100000]},
            {"id": "d", "prompt_token_ids": [1], "token_ids": [2], "sampling": {"topp": 1}},
            "{",
            {"id": "f", "prompt_token_ids": [1], "token_ids": [2], "reward": 0.5},
            {"id": "g", "schema": 2, "prompt_token_ids": [1], "token_ids": [2]},
            {"id": "h", "schema": "1", "prompt_token_ids": [1], "token_ids": [2]},
        ]
        result = self.score("llama", self.write_prompts(bad))
        self.assertEqual(result.code, 1)
        self.assertIn("7 lines failed", result.stderr)
        messages = [line.get("error", {}).get("message", "") for line in result.lines]
        for message, part in zip(messages, ["prompt_token_ids", "token_ids", "100000", "top_p", "JSON"], strict=False):
            self.assertIn(part, message)
        self.assertEqual(messages[6], "schema is 2; this program reads 1")
        self.assertIn("schema is", messages[7])
        self.assertEqual(result.lines[5]["reward"], 0.5)
        self.assertEqual(len(result.lines[5]["logprobs"]), 1)


if __name__ == "__main__":
    unittest.main()
