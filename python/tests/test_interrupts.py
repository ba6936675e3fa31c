"""Ctrl-C while the package waits: a real signal to a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import HEEDS_CTRL_C, checkpoint, needs_native, needs_numpy

MODEL = "llama_fp16"

# Sequences that have started and take long, so that whatever waits for them waits long.
BUSY = """
import sys, threading, time
from rlgen import LLM, SamplingParams
from support import tensors_of
llm = LLM(sys.argv[1], num_threads=1, max_num_seqs=2048)
tensors = tensors_of(sys.argv[2])
params = SamplingParams(max_tokens=110, ignore_eos=True, detokenize=False)

def roll_out():
    llm.generate([[1]] * 2048, params)

def update():
    llm.update_weights(tensors, kv_policy="wait")

running = threading.Thread(target=roll_out)
running.start()
while llm.metrics()["running"] < 256:
    time.sleep(0.01)
"""

PAUSE = """
print("ready", flush=True)
try:
    llm.pause("wait")
except KeyboardInterrupt:
    print("interrupted", llm.paused, flush=True)
    llm.resume()
    print("resumed", not llm.paused, flush=True)
"""

# One step that takes about eight seconds, whatever the machine: the plain kernels, and as many prompts as that
# needs. All of them wait behind a pause, so that one step takes them all.
LONG_STEP = """
import sys, threading, time
from rlgen import LLM, SamplingParams
llm = LLM(sys.argv[1], num_threads=1, isa="scalar", max_num_seqs=1024, max_num_batched_tokens=1 << 17,
          enable_prefix_caching=False)

def roll_out(count):
    llm.generate([[1] * 100] * count, SamplingParams(max_tokens=1))

begun = time.monotonic()
roll_out(64)
count = min(1024, int(64 * 8 / (time.monotonic() - begun)))
llm.pause()
running = threading.Thread(target=roll_out, args=(count,))
running.start()
while llm._engine.native.in_flight() < count:
    time.sleep(0.01)
llm.resume()
time.sleep(0.2)

def interrupted(call):
    print("ready", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        return print("interrupted", llm.paused, flush=True)
    print("not interrupted", flush=True)

for mode in ("keep", "abort", "retract"):
    interrupted(lambda: llm.pause(mode))
    interrupted(llm.resume)
llm.resume()
print("resumed", not llm.paused, flush=True)
running.join()
"""

UPDATE = """
print("ready", flush=True)
try:
    update()
except KeyboardInterrupt:
    print("interrupted", llm.weight_version == 0, flush=True)
    while llm.weight_version == 0:
        time.sleep(0.01)
    print("resumed", len(llm.generate([[1]], SamplingParams(max_tokens=1))) == 1, flush=True)
"""

STOP = """
llm.shutdown()
running.join()
"""

# The second one waits for the first one's end and never begins to commit.
SECOND_UPDATE = """
first = threading.Thread(target=update)
first.start()
time.sleep(0.2)
print("ready", flush=True)
try:
    update()
except KeyboardInterrupt:
    print("interrupted", llm.weight_version == 0, flush=True)
    first.join()
    time.sleep(0.2)
    print("resumed", llm.weight_version == 1, flush=True)
    update()
"""

# An update waits for what runs, and whoever else wants one waits for it.
BEGIN = """
from rlgen.weights import manifest_of
first = threading.Thread(target=update)
first.start()
time.sleep(0.2)
print("ready", flush=True)
try:
    llm.begin_update(manifest_of(tensors.items()))
except KeyboardInterrupt:
    print("interrupted", llm.weight_version == 0, flush=True)
    first.join()
    update()
    print("resumed", llm.weight_version == 2, flush=True)
"""

ABORT = """
from rlgen.weights import manifest_of
update = llm.begin_update(manifest_of(tensors.items()), kv_policy="wait")
for name, tensor in tensors.items():
    update.write(name, tensor)
committing = threading.Thread(target=update.commit)
committing.start()
time.sleep(0.2)
print("ready", flush=True)
try:
    update.abort()
except KeyboardInterrupt:
    print("interrupted", llm.weight_version == 0, flush=True)
    committing.join()
    print("resumed", llm.weight_version == 1, flush=True)
"""

# Leaving the block asks for no abort of what is being committed.
COMMIT = """
from rlgen.weights import manifest_of
try:
    with llm.begin_update(manifest_of(tensors.items()), kv_policy="wait") as update:
        for name, tensor in tensors.items():
            update.write(name, tensor)
        print("ready", flush=True)
        update.commit()
except KeyboardInterrupt:
    print("interrupted", llm.weight_version == 0, flush=True)
    while llm.weight_version == 0:
        time.sleep(0.01)
    print("resumed", True, flush=True)
"""

# The loop's task ends at once; what its threads began is dropped by them.
ASYNC_BEGIN = """
import asyncio
from rlgen.weights import manifest_of
from rlgen.controls import AsyncControls
class Awaited(AsyncControls):
    _engine = llm._engine
first = threading.Thread(target=update)
first.start()
time.sleep(0.2)

async def begin():
    waiting = asyncio.create_task(Awaited().begin_update(manifest_of(tensors.items())))
    await asyncio.sleep(0)
    print("ready", flush=True)
    try:
        await waiting
    except asyncio.CancelledError:
        print("interrupted", llm.weight_version == 0, flush=True)
        raise

try:
    asyncio.run(begin())
except KeyboardInterrupt:
    first.join()
    update()
    print("resumed", llm.weight_version == 2, flush=True)
"""

SEND = """
import sys
from pathlib import Path
from rlgen.weight_sync import send_weights
from support import tensors_of
print("ready", flush=True)
try:
    send_weights("ipc://" + sys.argv[1], tensors_of(sys.argv[2]), timeout_s=60.0)
except KeyboardInterrupt:
    print("interrupted", True, flush=True)
print("resumed", not Path(sys.argv[1]).exists(), flush=True)  # the error let go of the sender
"""


@needs_native
@needs_numpy
class InterruptTest(unittest.TestCase):
    """Each wait ends with KeyboardInterrupt soon after the signal, and things go on afterwards."""

    def interrupt(self, program: str, place: str) -> None:
        """Runs `program`, sends it the signal whenever it waits, and looks at what it says."""
        process = subprocess.Popen(
            [sys.executable, "-c", HEEDS_CTRL_C + program, place, MODEL],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            assert process.stdout is not None
            line = process.stdout.readline()
            self.assertEqual(line, "ready\n")
            while line == "ready\n":
                time.sleep(0.3)
                sent = time.monotonic()
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.stdout.readline(), "interrupted True\n")
                self.assertLess(time.monotonic() - sent, 2.0)
                line = process.stdout.readline()
            self.assertEqual(line, "resumed True\n")
            self.assertEqual(process.wait(timeout=60), 0)

    def test_pause_that_waits(self) -> None:
        self.interrupt(BUSY + PAUSE + STOP, str(checkpoint(MODEL)))

    def test_pause_and_resume_in_a_long_step(self) -> None:
        self.interrupt(LONG_STEP, str(checkpoint(MODEL)))

    def test_update_that_waits_for_running_requests(self) -> None:
        self.interrupt(BUSY + UPDATE + STOP, str(checkpoint(MODEL)))

    def test_update_that_waits_for_another_one(self) -> None:
        self.interrupt(BUSY + SECOND_UPDATE + STOP, str(checkpoint(MODEL)))

    def test_begin_that_waits_for_another_update(self) -> None:
        self.interrupt(BUSY + BEGIN + STOP, str(checkpoint(MODEL)))

    def test_abort_that_waits_for_a_commit(self) -> None:
        self.interrupt(BUSY + ABORT + STOP, str(checkpoint(MODEL)))

    def test_commit_in_a_block(self) -> None:
        self.interrupt(BUSY + COMMIT + STOP, str(checkpoint(MODEL)))

    def test_begin_in_a_task(self) -> None:
        self.interrupt(BUSY + ASYNC_BEGIN + STOP, str(checkpoint(MODEL)))

    def test_sender_that_nobody_answers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.interrupt(SEND, str(Path(folder) / "nobody.sock"))


if __name__ == "__main__":
    unittest.main()
