"""rlgen.weight_sync: one refit from the pause to the resume. Tests are named by the numbers of the contract."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend_support import COLOCATED, READY, batch, config
from support import checkpoint, needs_native, needs_numpy, needs_pydantic, tensors_of, write_tensors

if TYPE_CHECKING or READY:
    import numpy as np
    import rlgen
    from rlgen import LLM, AsyncLLM, SamplingParams, _native, futures
    from rlgen.errors import (
        BadInputError,
        DeadlineError,
        IPCWeightManifestError,
        RefitParticipantError,
        UnsupportedError,
        WrongStateError,
    )
    from rlgen.generation import RlgenGeneration
    from rlgen.weight_sync import (
        DiskTransport,
        IpcTransport,
        MemoryTransport,
        WeightSynchronizer,
        refit_info,
        send_weights,
        supervise,
    )
    from rlgen.weights import NamedTensors

    class Recorded(RlgenGeneration):
        """Writes down which steps of a refit are called."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.calls: list[str] = []
            super().__init__(*args, **kwargs)

        def pause_generation_for_refit(self, *, clear_cache: bool, timeout_s: float | None = None) -> bool:
            self.calls.append("pause")
            return super().pause_generation_for_refit(clear_cache=clear_cache, timeout_s=timeout_s)

        def update_weights_from_tensors(self, named_tensors: NamedTensors, **options: Any) -> list[Any]:
            self.calls.append("transfer")
            return super().update_weights_from_tensors(named_tensors, **options)

        def set_rollout_weight_version(self, version: int) -> None:
            self.calls.append("stamp")
            super().set_rollout_weight_version(version)

        def resume_generation_after_refit(self, *, timeout_s: float | None = None) -> bool:
            self.calls.append("resume")
            return super().resume_generation_after_refit(timeout_s=timeout_s)


MODEL = "llama_fp16"


def environment() -> dict[str, str]:
    """For a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def done(result: Any) -> Future[Any]:
    """A future with its result."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def send_halves(endpoint: str) -> list[Future[None]]:
    """Makes another process send half of every weight to `endpoint`."""
    command = [sys.executable, str(Path(__file__).with_name("ipc_trainer.py")), endpoint, MODEL, "0.5"]

    def send() -> None:
        subprocess.run(command, env=environment(), timeout=60, check=True)

    return [futures.start(send, "trainer")]


class Gate:
    """Admits rollouts, or not."""

    opened = True

    def close(self) -> None:
        self.opened = False

    def reopen(self) -> None:
        self.opened = True


@needs_native
@needs_numpy
@needs_pydantic
class RefitTest(unittest.TestCase):
    """A real backend whose steps are written down."""

    def setUp(self) -> None:
        self.generation = Recorded(config(MODEL))
        self.addCleanup(self.generation.shutdown)
        self.tensors = tensors_of(MODEL)
        self.gate = Gate()

    def synchronizer(self, tensors: Any = None, **options: Any) -> WeightSynchronizer:
        transport = MemoryTransport(tensors or (lambda: self.tensors))
        return WeightSynchronizer(self.generation, transport, gate=self.gate, **options)

    def start_call(self) -> threading.Thread:
        """A rollout on a thread of its own."""
        thread = threading.Thread(
            target=lambda: self.generation.generate(batch([3]), greedy=True), daemon=True
        )
        thread.start()
        return thread

    def test_t40_stamp_comes_before_resume(self) -> None:
        synchronizer = self.synchronizer()
        self.assertTrue(synchronizer.is_stale)
        synchronizer.sync_weights(version=12)
        self.assertEqual(self.generation.calls, ["pause", "transfer", "stamp", "resume"])
        self.assertFalse(synchronizer.is_stale)
        self.assertTrue(self.gate.opened)
        output = self.generation.generate(batch([3]), greedy=True)
        self.assertEqual(output["weight_versions"][0, 1], 12)
        synchronizer.sync_weights()
        self.assertEqual(synchronizer.version, 13)
        self.assertIsNone(synchronizer.reconcile_communicator([0]))
        synchronizer.shutdown()
        synchronizer.shutdown()

    def test_t39_failure_half_way_leaves_the_engines_paused(self) -> None:
        def torn() -> Iterator[tuple[str, Any]]:
            yield from list(self.tensors.items())[:3]

        synchronizer = self.synchronizer(torn)
        with self.assertRaisesRegex(RefitParticipantError, "consumer 0 .* failed"):
            synchronizer.sync_weights()
        self.assertEqual(self.generation.calls, ["pause", "transfer"])
        self.assertTrue(synchronizer.is_stale)
        self.assertFalse(self.gate.opened)
        call = self.start_call()
        call.join(0.3)
        self.assertTrue(call.is_alive(), "a request was admitted after a failed refit")
        synchronizer._transport = MemoryTransport(lambda: self.tensors)
        synchronizer.sync_weights()
        call.join(10)
        self.assertFalse(call.is_alive())
        self.assertTrue(self.gate.opened)

    def test_t39_a_colocated_engine_is_awake_after_a_failure(self) -> None:
        generation = RlgenGeneration(config(MODEL, colocated=COLOCATED))
        self.addCleanup(generation.shutdown)
        before = generation.generate(batch([3]), greedy=True)
        generation.finish_generation()
        torn = dict(list(self.tensors.items())[:3])
        with self.assertRaises(RefitParticipantError):
            WeightSynchronizer(generation, MemoryTransport(lambda: torn)).sync_weights()
        self.assertEqual(generation._engine.native.asleep(), (False, False))
        self.assertIs(generation.resume_generation_after_refit(), True)
        after = generation.generate(batch([3]), greedy=True)
        self.assertEqual(after["logprobs"].tolist(), before["logprobs"].tolist())
        generation.finish_generation()
        halves = {name: tensor * tensor.dtype.type(0.5) for name, tensor in self.tensors.items()}
        WeightSynchronizer(generation, MemoryTransport(lambda: halves)).sync_weights()
        output = generation.generate(batch([3]), greedy=True)
        self.assertEqual(output["weight_versions"][0, 1], 1)

    def test_t41_pause_that_does_not_settle_ends_the_refit(self) -> None:
        def never(*, clear_cache: bool, timeout_s: float | None = None) -> bool:
            raise DeadlineError("shard 0 did not pause")

        self.generation.pause_generation_for_refit = never  # type: ignore[method-assign]
        synchronizer = self.synchronizer()
        with self.assertRaisesRegex(TimeoutError, "did not pause"):
            synchronizer.sync_weights()
        self.assertEqual(self.generation.calls, [])
        self.assertTrue(synchronizer.is_stale)
        self.assertFalse(self.gate.opened)

    def test_stale_kv_without_a_native_pause_is_refused(self) -> None:
        self.generation.pause_generation_for_refit = lambda **_: False  # type: ignore[method-assign]
        with self.assertRaisesRegex(UnsupportedError, "Recorded cannot pause"):
            self.synchronizer().sync_weights()
        self.synchronizer(recompute_kv_cache=False).sync_weights()

    def test_kv_scales_and_bad_deadlines_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "kv_scales"):
            self.synchronizer().sync_weights(kv_scales={"x": 1.0})
        for wrong in (0, -1.0, float("nan"), float("inf"), True):
            with self.assertRaisesRegex(ValueError, "refit_timeout_s is"):
                self.synchronizer(refit_timeout_s=wrong)

    def test_ipc_from_another_process(self) -> None:
        transport = IpcTransport(send_halves, refit_info(self.tensors))
        WeightSynchronizer(self.generation, transport).sync_weights(version=4)
        native = self.generation._engine.native
        self.assertEqual(native.weight_version(), 4)
        for name, tensor in self.tensors.items():
            self.assertEqual(np.from_dlpack(native.read_weight(name)).tobytes(), (tensor * tensor.dtype.type(0.5)).tobytes())

    def test_ipc_faults_are_named_and_the_old_weights_serve(self) -> None:
        with self.assertRaisesRegex(WrongStateError, "prepare_refit_info"):
            self.generation.update_weights_via_ipc_zmq()
        expected = self.generation.generate(batch([3]), greedy=True)
        for change, text in [("drop", "model.norm.weight"), ("twice", "model.norm.weight"), ("surplus", "surplus")]:
            with self.subTest(change=change):
                self.generation.prepare_refit_info(refit_info(self.tensors))
                (receiver,) = self.generation.update_weights_via_ipc_zmq()
                tensors = list(self.tensors.items())
                norm = ("model.norm.weight", self.tensors["model.norm.weight"].copy())
                if change == "drop":
                    tensors = [item for item in tensors if item[0] != norm[0]]
                elif change == "twice":
                    tensors.append(norm)
                else:
                    tensors.append(("surplus", norm[1]))
                send_weights(self.generation.ipc_endpoint, tensors)
                with self.assertRaisesRegex(IPCWeightManifestError, text) as caught:
                    rlgen.wait(receiver, 30)
                self.assertIsInstance(caught.exception, ValueError)
                output = self.generation.generate(batch([3]), greedy=True)
                self.assertEqual(output["logprobs"].tolist(), expected["logprobs"].tolist())

    def test_only_errors_of_the_manifest_have_its_type(self) -> None:
        native, endpoint = self.generation._engine.native, self.generation.ipc_endpoint
        name = "model.norm.weight"
        info = refit_info(self.tensors)
        (size,), dtype = info[name]
        nan = self.tensors[name].copy()
        nan[0] = np.nan
        before = native.weight_checksums()
        cases: list[tuple[str, dict[str, Any], dict[str, Any], Any, type[Exception], str]] = [
            ("shape", {name: ((size + 1,), dtype)}, {}, None, IPCWeightManifestError, name),
            ("type", {name: ((size,), "float32")}, {}, None, IPCWeightManifestError, "set cast"),
            ("surplus", {"surplus": ((2,), dtype)}, {}, None, IPCWeightManifestError, "surplus"),
            ("longer", {}, {}, np.resize(nan, 1000), IPCWeightManifestError, rf"sent {dtype} \[1000\]"),
            ("as long", {}, {}, np.resize(nan, size + 1), IPCWeightManifestError, rf"{name}: sent .* \[{size + 1}\]"),
            ("rows", {}, {}, nan.reshape(2, -1), IPCWeightManifestError, rf"announced {dtype} \[{size}\]"),
            ("sent type", {}, {}, nan.astype(np.float32), IPCWeightManifestError, "sent float32"),
            ("version", {}, {"version": 0}, None, BadInputError, "version 0 is served already"),
            ("older", {}, {"version": -1}, None, BadInputError, "is older than version 0"),
            ("value", {}, {"check_finite": True}, nan, BadInputError, "NaN"),
            ("base", {}, {"base": 7}, None, WrongStateError, "base is version 7"),
        ]
        for case, change, options, sent, kind, text in cases:
            with self.subTest(case=case):
                manifest = [(key, type_name, list(shape), "") for key, (shape, type_name) in {**info, **change}.items()]
                update = _native.UpdateOptions(case, **options)
                receive = partial(native.receive_ipc, endpoint, manifest, update, 30.0)
                receiver = futures.start(receive, "receiver")
                if sent is not None:
                    send_weights(endpoint, {**self.tensors, name: sent})
                with self.assertRaisesRegex(kind, text) as caught:
                    rlgen.wait(receiver, 30)
                self.assertIs(type(caught.exception), kind)
                self.assertEqual(native.weight_checksums(), before)

    def test_tied_tensors_go_once(self) -> None:
        class Tied:
            """A tensor as torch has it."""

            dtype, shape = "float16", (2, 2)

            def data_ptr(self) -> int:
                return 64

        self.assertEqual(refit_info({"a": Tied(), "b": Tied()}), {"a": ((2, 2), "float16")})

    def test_requests_in_flight_survive(self) -> None:
        synchronizer = self.synchronizer()
        calls = [self.start_call() for _ in range(4)]
        synchronizer.sync_weights()
        for call in calls:
            call.join(20)
            self.assertFalse(call.is_alive())


@needs_native
@needs_numpy
@needs_pydantic
class ModelTest(unittest.IsolatedAsyncioTestCase):
    """A trainer that rolls out with LLM or AsyncLLM."""

    def setUp(self) -> None:
        self.tensors = tensors_of(MODEL)
        self.halves = {name: tensor * tensor.dtype.type(0.5) for name, tensor in self.tensors.items()}

    def test_memory_into_llm(self) -> None:
        with LLM(checkpoint(MODEL), num_threads=1) as llm:
            WeightSynchronizer(llm, MemoryTransport(lambda: self.halves)).sync_weights(version=12)
            self.assertEqual(llm.weight_version, 12)
            self.assertFalse(llm.paused)
            for name, tensor in self.halves.items():
                self.assertEqual(np.from_dlpack(llm.get_weight(name)).tobytes(), tensor.tobytes())
            (output,) = llm.generate([1], SamplingParams(max_tokens=2, ignore_eos=True))
            self.assertEqual([span.version for span in output.outputs[0].weight_versions], [12])

    def test_disk_into_llm(self) -> None:
        with LLM(checkpoint(MODEL), num_threads=1) as llm:
            before = llm.weight_checksums()
            synchronizer = WeightSynchronizer(llm, MemoryTransport(lambda: self.halves))
            synchronizer.sync_weights()
            WeightSynchronizer(llm, DiskTransport(lambda: checkpoint(MODEL))).sync_weights(version=12)
            self.assertEqual((llm.weight_version, llm.weight_checksums()), (12, before))

    def test_weights_of_another_type(self) -> None:
        wide = {name: tensor.astype(np.float32) for name, tensor in self.tensors.items()}

        def saved() -> str:
            write_tensors(Path(folder), wide)
            return folder

        with tempfile.TemporaryDirectory() as folder, LLM(checkpoint(MODEL), num_threads=1) as llm:

            def bits() -> list[float]:
                (output,) = llm.generate([1, 2], SamplingParams(max_tokens=6, seed=1, ignore_eos=True))
                return output.outputs[0].token_logprobs

            before = bits()
            for transport in (partial(MemoryTransport, lambda: wide), partial(DiskTransport, saved)):
                with self.assertRaisesRegex(RefitParticipantError, "set cast"):
                    WeightSynchronizer(llm, transport()).sync_weights()
                WeightSynchronizer(llm, MemoryTransport(lambda: self.halves)).sync_weights()
                self.assertNotEqual(bits(), before)
                WeightSynchronizer(llm, transport(cast=True)).sync_weights()
                self.assertEqual(bits(), before)
            self.assertEqual(llm.weight_version, 4)  # each goes on from what is served

    def test_failure_leaves_llm_paused_with_the_old_weights(self) -> None:
        with LLM(checkpoint(MODEL), num_threads=1) as llm:
            before = llm.weight_checksums()
            torn = dict(list(self.halves.items())[:3])
            synchronizer = WeightSynchronizer(llm, MemoryTransport(lambda: torn))
            with self.assertRaises(RefitParticipantError):
                synchronizer.sync_weights()
            self.assertTrue(synchronizer.is_stale)
            self.assertTrue(llm.paused)
            self.assertEqual((llm.weight_version, llm.weight_checksums()), (0, before))

    async def test_another_process_into_async_llm_while_a_request_runs(self) -> None:
        llm = AsyncLLM(checkpoint(MODEL), num_threads=1)
        self.addCleanup(llm.shutdown)
        synchronizer = WeightSynchronizer(llm, IpcTransport(send_halves, refit_info(self.tensors)))
        params = SamplingParams(max_tokens=100, ignore_eos=True, n=200, seed=1)
        stream = llm.generate([1], params)
        await anext(stream)
        await asyncio.to_thread(synchronizer.sync_weights)
        outputs = [output async for output in stream]
        versions = [[span.version for span in sample.weight_versions] for sample in outputs[-1].outputs]
        self.assertEqual(llm.weight_version, 1)
        self.assertEqual({version for spans in versions for version in spans}, {0, 1})
        self.assertFalse(synchronizer.is_stale)


@needs_native
@needs_numpy
@needs_pydantic
class SuperviseTest(unittest.TestCase):
    """T52, and waiting for both sides."""

    def test_t52_a_consumer_must_give_exactly_true(self) -> None:
        supervise([done(None)], [done(True), done(True)], 1)
        for wrong in (None, 0, 1, "true", False):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(RuntimeError, "consumer 1 .* gave"):
                supervise([done(None)], [done(True), done(wrong)], 1)
        with self.assertRaisesRegex(RefitParticipantError, "producer 0 .* gave True"):
            supervise([done(True)], [done(True)], 1)

    def test_error_of_one_side_surfaces_while_the_other_hangs(self) -> None:
        failed: Future[Any] = Future()
        failed.set_exception(OSError("gone"))
        for producers, consumers, role in ([Future()], [failed], "consumer"), ([failed], [Future()], "producer"):
            with self.assertRaisesRegex(RefitParticipantError, f"{role} 0 .*gone"):
                supervise(producers, consumers, 60)

    def test_deadline_and_empty_sides(self) -> None:
        with self.assertRaisesRegex(DeadlineError, "still running: consumer 0"):
            supervise([done(None)], [Future()], 0.05)
        with self.assertRaisesRegex(BadInputError, "producer"):
            supervise([], [done(True)], 1)
        with self.assertRaisesRegex(BadInputError, "consumer"):
            supervise([done(None)], [], 1)


if __name__ == "__main__":
    unittest.main()
