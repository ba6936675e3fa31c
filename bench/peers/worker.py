"""Talks to a peer that stays loaded: a line of JSON per request, one per answer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any

from peers.environment import PeerError


class Worker:
    """A process that reads requests from its standard input and answers on its standard output.

    What else the process prints goes to `log`; answers are the lines that begin with MARK.
    """

    MARK = "@answer "

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, name: str) -> None:
        self.name = name
        self._log = log
        self._errors = log.open("w")
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        threading.Thread(target=self._end_children, daemon=True).start()

    def ask(self, request: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        """Sends a request (none: waits for the first word) and returns the answer.

        Raises:
            PeerError: the process died, said that it cannot, or did not answer in time.
        """
        if request is not None:
            try:
                self._input.write(json.dumps(request) + "\n")
                self._input.flush()
            except OSError as error:
                raise self._death() from error
        answer = self._wait(time.monotonic() + seconds, seconds)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def stop(self) -> None:
        """Ends the process and those that it started, which may outlive it."""
        self._kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _end_children(self) -> None:
        # One that outlives the process could hold its output, and whoever reads an answer would wait for more.
        self._process.wait()
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _wait(self, deadline: float, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        # Lines are read whole, so that nothing of an answer stays in a buffer that select cannot see.
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._kill)
        timer.start()
        try:
            for line in iter(self._process.stdout.readline, ""):
                if line.startswith(self.MARK):
                    return json.loads(line[len(self.MARK) :])
                self._errors.write(line)
        finally:
            timer.cancel()
        if time.monotonic() >= deadline:
            raise PeerError(f"{self.name}: no answer within {seconds:.0f} s")
        raise self._death()

    def _death(self) -> PeerError:
        code = self._process.wait()
        self._errors.flush()
        tail = " | ".join(self._log.read_text(errors="replace").splitlines()[-3:])
        return PeerError(f"{self.name}: ended with {code}, see {self._log}: {tail}")
