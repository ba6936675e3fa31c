"""The package where Ray is running: what members return are references, and a backend lives in an actor."""

from __future__ import annotations

import threading
import unittest
from typing import TYPE_CHECKING, Any

from backend_support import READY, batch, config
from support import has, needs_native, needs_numpy, needs_pydantic, tensors_of

if TYPE_CHECKING or READY:
    import numpy as np

    import rlgen
    from rlgen import futures
    from rlgen.errors import BadInputError, CorruptDataError, DeadlineError, IPCWeightManifestError
    from rlgen.generation import RlgenGeneration
    from rlgen.weight_sync import MemoryTransport, WeightSynchronizer, refit_info, send_weights

MODEL = "llama_fp16"


class Unpicklable(Exception):
    """An error that no other process can be told."""

    def __init__(self) -> None:
        super().__init__("of a kind of its own")
        self.lock = threading.Lock()


@unittest.skipUnless(has("ray"), "ray is not installed")
@needs_native
@needs_numpy
@needs_pydantic
class RayTest(unittest.TestCase):
    """A Ray of this machine alone, with one CPU; rlgen must not need it for itself."""

    ray: Any

    @classmethod
    def setUpClass(cls) -> None:
        """Starts it."""
        import ray

        cls.ray = ray
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        cls.addClassCleanup(ray.shutdown)

    def start(self) -> RlgenGeneration:
        generation = RlgenGeneration(config(MODEL))
        self.addCleanup(generation.shutdown)
        return generation


class FuturesTest(RayTest):
    """References of results that come later."""

    def test_results_and_errors(self) -> None:
        event = threading.Event()
        late = futures.start(lambda: event.wait(60), "late")
        soon = futures.start(lambda: {"rows": 3}, "soon")
        bad = futures.start(lambda: 1 // 0, "bad")
        self.assertIsInstance(late, self.ray.ObjectRef)
        self.assertEqual(self.ray.get(soon, timeout=60), {"rows": 3})
        self.assertEqual(self.ray.wait([late, soon], timeout=60), ([soon], [late]))
        self.assertEqual((futures.is_done(soon), futures.is_done(late)), (True, False))
        with self.assertRaisesRegex(DeadlineError, "0.01 s"):
            rlgen.wait(late, 0.01)
        event.set()
        self.assertIs(self.ray.get(late, timeout=60), True)
        self.assertEqual(rlgen.wait([soon, late], 60), [{"rows": 3}, True])
        with self.assertRaises(ZeroDivisionError):
            self.ray.get(bad, timeout=60)
        with self.assertRaises(ZeroDivisionError) as caught:
            rlgen.wait(bad, 60)
        self.assertIs(type(caught.exception), ZeroDivisionError)

    def test_error_keeps_its_type_and_code(self) -> None:
        def fail() -> None:
            error = CorruptDataError("tensor q: digest differs")
            error.code = "digest"
            raise error

        reference = futures.start(fail, "fails")
        with self.assertRaisesRegex(RuntimeError, "tensor q") as of_ray:
            self.ray.get(reference, timeout=60)
        self.assertIsInstance(of_ray.exception, CorruptDataError)
        with self.assertRaises(CorruptDataError) as caught:
            rlgen.wait(reference, 60)
        self.assertEqual((str(caught.exception), caught.exception.code), ("tensor q: digest differs", "digest"))

    def test_what_ray_cannot_carry_is_an_error(self) -> None:
        def fail() -> None:
            raise Unpicklable

        for work in (fail, threading.Lock):
            with self.assertRaisesRegex(rlgen.errors.InternalError, "Ray cannot carry"):
                rlgen.wait(futures.start(work, "odd"), 60)

    def test_many_at_once(self) -> None:
        event = threading.Event()
        pending = [futures.start(lambda row=row: event.wait(60) and row, f"row {row}") for row in range(50)]
        event.set()
        self.assertEqual(self.ray.get(pending, timeout=60), list(range(50)))

    def test_references_of_tasks_are_waited_for_too(self) -> None:
        task = self.ray.remote(num_cpus=0)(lambda: 5)
        self.assertEqual(rlgen.wait([task.remote(), futures.start(lambda: 6, "six")], 60), [5, 6])
        with self.assertRaisesRegex(BadInputError, "a int is no future"):
            rlgen.wait([3])


class BackendTest(RayTest):
    """What the members of RlgenGeneration return."""

    def test_liveness(self) -> None:
        self.assertIs(self.ray.get(self.start().shard_liveness_ref(0), timeout=60), True)

    def test_update_from_memory(self) -> None:
        generation, tensors = self.start(), tensors_of(MODEL)
        self.assertEqual(self.ray.get(generation.update_weights_from_tensors(tensors, version=3), timeout=60), [True])
        self.assertEqual(generation._engine.native.weight_version(), 3)
        torn = dict(list(tensors.items())[:3])
        with self.assertRaisesRegex(ValueError, "is missing"):
            self.ray.get(generation.update_weights_from_tensors(torn), timeout=60)
        self.assertEqual(generation._engine.native.weight_version(), 3)

    def test_update_from_another_process(self) -> None:
        generation, tensors = self.start(), tensors_of(MODEL)
        generation.prepare_refit_info(refit_info(tensors))
        trainer = self.ray.remote(num_cpus=1)(send_weights)
        for sent, surplus in ((tensors, False), ({**tensors, "surplus": np.zeros(2, np.float16)}, True)):
            receivers = generation.update_weights_via_ipc_zmq()
            self.assertIsNone(self.ray.get(trainer.remote(generation.ipc_endpoint, sent), timeout=60))
            if not surplus:
                self.assertEqual(self.ray.get(receivers, timeout=60), [True])
                continue
            with self.assertRaisesRegex(IPCWeightManifestError, "1 unexpected"):
                self.ray.get(receivers, timeout=60)

    def test_synchronizer(self) -> None:
        generation = self.start()
        synchronizer = WeightSynchronizer(generation, MemoryTransport(lambda: tensors_of(MODEL)))
        synchronizer.sync_weights(version=12)
        self.assertEqual(generation._engine.native.weight_version(), 12)
        self.assertFalse(synchronizer.is_stale)


class ActorTest(RayTest):
    """A backend in an actor, as a trainer's worker group has it."""

    def test_rollouts_and_futures(self) -> None:
        class Worker:
            """One engine. Its futures are references, which it waits for, or hands out."""

            def __init__(self, section: Any) -> None:
                self.generation = RlgenGeneration(section)

            def generate(self, data: Any) -> Any:
                return self.generation.generate(data, greedy=False)

            def update(self, tensors: Any, version: int) -> Any:
                return self.generation.update_weights_from_tensors(tensors, version=version)

            def alive(self) -> Any:
                import ray

                return ray.get(self.generation.shard_liveness_ref(0), timeout=60)

        worker = self.ray.remote(num_cpus=1)(Worker).remote(config(MODEL))
        self.addCleanup(self.ray.kill, worker)
        data = batch([3, 4], [5], seeds=[7, 8])
        here = self.start().generate(data, greedy=False)
        there = self.ray.get(worker.generate.remote(data), timeout=120)
        self.assertIs(type(there), type(here))
        for key in ("output_ids", "logprobs", "weight_versions", "seeds"):
            self.assertEqual(there[key].tolist(), here[key].tolist(), key)
        self.assertIs(self.ray.get(worker.alive.remote(), timeout=60), True)
        references = self.ray.get(worker.update.remote(tensors_of(MODEL), 5), timeout=60)
        self.assertEqual(self.ray.get(references, timeout=60), [True])
        again = self.ray.get(worker.generate.remote(data), timeout=60)
        self.assertEqual(again["logprobs"].tolist(), here["logprobs"].tolist())
        made = here["weight_versions"] >= 0
        self.assertEqual(set(again["weight_versions"][made].tolist()), {5})


if __name__ == "__main__":
    unittest.main()
