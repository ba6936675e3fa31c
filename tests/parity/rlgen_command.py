"""Runs the built command line on token ids and reads its answers back."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Expert ids [tokens, layers with experts, experts of a token].
Routes = list[list[list[int]]]


class CommandError(Exception):
    """The command line failed or left a line unanswered; the text says which and why."""


@dataclass(frozen=True)
class Rlgen:
    """The command line, one model and the options that go with every call.

    Attributes:
        program: path of the `rlgen` binary.
        model: checkpoint folder.
        max_model_len: the context length in force.
        options: further options, as on the command line.
    """

    program: Path
    model: Path
    max_model_len: int
    options: tuple[str, ...] = ()

    def score(self, sequences: list[list[int]]) -> list[list[float]]:
        """Log-probability of every token but the first of each sequence, mode `raw`."""
        return [answer["logprobs"] for answer in self._score(sequences)]

    def score_and_route(self, sequences: list[list[int]]) -> tuple[list[list[float]], list[Routes]]:
        """The same, and the experts of every token but the last."""
        answers = self._score(sequences, "--enable-return-routed-experts", "--routed-experts-format", "list")
        return [answer["logprobs"] for answer in answers], [answer["routed_experts"] for answer in answers]

    def _score(self, sequences: list[list[int]], *options: str) -> list[dict[str, Any]]:
        lines = [{"prompt_token_ids": ids[:1], "token_ids": ids[1:]} for ids in sequences]
        return self._run("score", "--input", lines, *options)

    def greedy(self, prompts: list[list[int]], counts: list[int]) -> list[list[int]]:
        """Continues each prompt greedily by its count of tokens, past any end of text."""
        lines = [
            {"prompt_token_ids": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True}
            for ids, count in zip(prompts, counts, strict=True)
        ]
        return [answer["token_ids"] for answer in self._run("generate", "--prompts", lines)]

    def _run(self, verb: str, input_option: str, lines: list[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="rlgen-parity-") as scratch:
            source, target = Path(scratch) / "in.jsonl", Path(scratch) / "out.jsonl"
            source.write_text("".join(json.dumps({"id": str(i)} | line) + "\n" for i, line in enumerate(lines)))
            command = [str(self.program), verb, "--model", str(self.model), input_option, str(source)]
            command += ["--output", str(target), "--logprobs-mode", "raw", *self.options, *options]
            command += ["--max-model-len", str(self.max_model_len)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if not target.is_file():
                raise CommandError(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()}")
            answers = {line["id"]: line for line in map(json.loads, target.read_text().splitlines())}
        return [self._answer(verb, answers, i, result) for i in range(len(lines))]

    def _answer(
        self, verb: str, answers: dict[str, Any], index: int, result: subprocess.CompletedProcess[str]
    ) -> dict[str, Any]:
        answer = answers.get(str(index))
        if answer is None or answer.get("error"):
            why = (
                answer["error"] if answer else f"no output line; exit code {result.returncode}: {result.stderr.strip()}"
            )
            raise CommandError(f"{verb} {self.model.name}, line {index}: {why}")
        return answer
