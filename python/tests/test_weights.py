"""Weights that change, and pauses, from Python."""

from __future__ import annotations

import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import checkpoint, has, needs_native, needs_numpy, needs_torch, tensors_of

if TYPE_CHECKING or (has("rlgen._native") and has("numpy")):
    import numpy as np
    from rlgen import LLM, AsyncLLM, SamplingParams
    from rlgen.errors import BadInputError, CorruptDataError, DeadlineError, WrongStateError
    from rlgen.weight_sync import send_weights
    from rlgen.weights import StoredVersion, TensorInfo, manifest_of, wait_for_version

MODEL = "llama_fp16"
PARAMS: dict[str, Any] = {"max_tokens": 6, "seed": 1, "ignore_eos": True}


def changed(tensors: dict[str, Any], factor: float = 0.5) -> dict[str, Any]:
    """Other weights of the same shapes."""
    return {name: (tensor * factor).astype(tensor.dtype) for name, tensor in tensors.items()}


@needs_native
@needs_numpy
class UpdateTest(unittest.TestCase):
    """A model for each test."""

    def setUp(self) -> None:
        self.llm = LLM(checkpoint(MODEL), num_threads=1)
        self.addCleanup(self.llm.shutdown)
        self.tensors = tensors_of(MODEL)

    def bits(self) -> tuple[list[int], list[float]]:
        """What the weights that serve make of a prompt."""
        (output,) = self.llm.generate([1, 2], SamplingParams(**PARAMS))
        return output.outputs[0].token_ids, output.outputs[0].token_logprobs

    def test_update_and_back(self) -> None:
        first = self.bits()
        other = changed(self.tensors)
        self.assertEqual(self.llm.update_weights(other), 1)
        self.assertNotEqual(self.bits(), first)
        (output,) = self.llm.generate([1], SamplingParams(**PARAMS))
        self.assertEqual([span.version for span in output.outputs[0].weight_versions], [1])
        for name, tensor in other.items():
            back = np.from_dlpack(self.llm.get_weight(name))
            self.assertEqual((back.dtype, back.shape), (tensor.dtype, tensor.shape))
            self.assertEqual(back.tobytes(), tensor.tobytes())
        self.assertEqual(self.llm.update_weights(iter(self.tensors.items()), 7), 7)
        self.assertEqual(self.bits(), first)
        self.assertEqual(self.llm.weight_version, 7)

    def test_fb099_what_changed_is_counted_and_nothing_is_a_warning(self) -> None:
        self.assertIsNone(self.llm.last_update)
        other = changed(self.tensors)
        self.llm.update_weights(other)
        report = self.llm.last_update
        assert report is not None
        self.assertEqual((report.tensors, report.changed, report.staging_bytes), (len(other), len(other), 0))
        self.assertEqual(report.bytes, sum(tensor.nbytes for tensor in other.values()))
        with self.assertLogs("rlgen", "WARNING") as logs:
            self.llm.update_weights(other)
        self.assertIn("0 tensors changed", logs.output[0])
        name = "model.norm.weight"
        self.llm.update_weights({**other, name: self.tensors[name]})
        report = self.llm.last_update
        assert report is not None
        self.assertEqual((report.tensors, report.changed), (len(other), 1))

    def test_checksums_are_those_of_what_was_sent(self) -> None:
        before = self.llm.weight_checksums()
        self.assertEqual({name: entry.shape for name, entry in before.items()},
                         {name: tensor.shape for name, tensor in self.tensors.items()})
        self.llm.update_weights(changed(self.tensors))
        self.assertNotEqual(self.llm.weight_checksums(), before)
        manifest = list(before.values())  # with digests
        with self.llm.begin_update(manifest) as update:
            for name, tensor in self.tensors.items():
                update.write(name, tensor)
            update.commit()
        self.assertEqual(self.llm.weight_checksums(), before)
        with self.assertRaises(CorruptDataError), self.llm.begin_update(manifest) as update:
            for name, tensor in changed(self.tensors).items():
                update.write(name, tensor)
            update.commit()
        self.assertEqual(self.llm.weight_checksums(), before)

    def test_bad_tensors_are_named_and_the_old_weights_serve(self) -> None:
        first = self.bits()
        name = "model.norm.weight"
        good = changed(self.tensors)
        other_type = {**good, name: good[name].astype(np.float32)}
        missing = {key: value for key, value in good.items() if key != name}
        strided = np.zeros((2 * good[name].size,), np.float16)[::2]
        nan = {**good, name: np.full_like(good[name], np.nan)}
        for tensors, options, text in [
            (missing, {}, name),
            ({**good, "surplus.weight": good[name]}, {}, "surplus.weight"),
            ([*good.items(), (name, good[name])], {}, name),
            ({**good, name: good[name][:-1]}, {}, name),
            (other_type, {}, name),
            ({**good, name: strided}, {}, f"{name} is not contiguous"),
            (nan, {"check_finite": True}, name),
            (good, {"kv_policy": "drop"}, "kv_policy is \"drop\""),
            (good, {"timeout_s": 0.0}, "timeout_s is 0"),
            (good, {"version": 0}, "0"),
            ({name: [1.0]}, {}, "list is no tensor"),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, text) as caught:
                self.llm.update_weights(tensors, **options)  # type: ignore[arg-type]
            self.assertIsInstance(caught.exception, BadInputError)
            self.assertEqual(self.bits(), first)
            self.assertEqual(self.llm.weight_version, 0)

    def test_true_is_no_time_anywhere(self) -> None:
        calls: list[Callable[[bool], object]] = [
            lambda wrong: self.llm.pause(timeout_s=wrong),
            lambda wrong: self.llm.resume(timeout_s=wrong),
            lambda wrong: self.llm.update_weights(self.tensors, timeout_s=wrong),
            lambda wrong: self.llm.begin_update(manifest_of(self.tensors.items()), timeout_s=wrong),
            lambda wrong: wait_for_version("no/such/folder", timeout_s=wrong),
            lambda wrong: send_weights("ipc:///tmp/nobody", self.tensors.items(), timeout_s=wrong),
        ]
        for call in calls:
            for wrong in (True, False):
                with self.assertRaisesRegex(BadInputError, f"timeout_s is {wrong}; "):
                    call(wrong)
        self.assertEqual(self.llm.weight_version, 0)

    def test_another_type_with_cast(self) -> None:
        first = self.bits()
        wide = {name: tensor.astype(np.float32) for name, tensor in self.tensors.items()}
        self.llm.update_weights(wide, cast=True)
        self.assertEqual(self.bits(), first)

    def test_versions_rise_unless_rollback_is_allowed(self) -> None:
        self.llm.update_weights(changed(self.tensors), 5)
        for version in (5, 4):
            with self.assertRaisesRegex(ValueError, str(version)):
                self.llm.update_weights(self.tensors, version)
        self.assertEqual(self.llm.update_weights(self.tensors, 4, allow_rollback=True), 4)

    def test_subset_over_a_base(self) -> None:
        name = "model.norm.weight"
        half = changed(self.tensors)
        self.llm.update_weights({name: half[name]}, base=0)
        self.assertEqual(np.from_dlpack(self.llm.get_weight(name)).tobytes(), half[name].tobytes())
        with self.assertRaisesRegex(WrongStateError, "base is version 5"):
            self.llm.update_weights({name: half[name]}, base=5)
        kept = "model.embed_tokens.weight"
        self.assertEqual(np.from_dlpack(self.llm.get_weight(kept)).tobytes(), self.tensors[kept].tobytes())

    def test_from_disk(self) -> None:
        first = self.bits()
        self.llm.update_weights(changed(self.tensors))
        self.assertEqual(self.llm.update_weights_from_disk(checkpoint(MODEL)), 2)
        self.assertEqual(self.bits(), first)
        with self.assertRaisesRegex(BadInputError, "/no/such"):
            self.llm.update_weights_from_disk("/no/such")
        for cast, text in [(False, "stored as float16; set cast"), (True, "model.layers.2")]:
            with self.subTest(cast=cast), self.assertRaisesRegex(BadInputError, text):
                self.llm.update_weights_from_disk(checkpoint("llama"), cast=cast)  # one layer less
        self.assertEqual((self.bits(), self.llm.weight_version), (first, 2))

    def test_fb105_a_version_counts_once_it_is_complete(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            for version, stable in [(3, True), (12, True), (13, False)]:
                folder = Path(root) / f"step_{version}"
                folder.mkdir()
                for file in checkpoint(MODEL).iterdir():
                    (folder / file.name).write_bytes(file.read_bytes())
                if stable:
                    (folder / "STABLE").touch()
            found = wait_for_version(root, 4)
            self.assertEqual(found, StoredVersion(12, str(Path(root) / "step_12")))
            self.assertEqual(self.llm.update_weights_from_disk(found.folder, found.version), 12)
            with self.assertRaisesRegex(DeadlineError, "no version from 13 on .* newest one is 12"):
                wait_for_version(root, 13, timeout_s=0.05)
            shard = Path(found.folder) / "model.safetensors"
            shard.write_bytes(shard.read_bytes()[:-1])
            with self.assertRaisesRegex(CorruptDataError, "truncated"):
                self.llm.update_weights_from_disk(found.folder)
        with self.assertRaisesRegex(BadInputError, "cannot list"):
            wait_for_version(root)

    def test_one_update_at_a_time(self) -> None:
        update = self.llm.begin_update(manifest_of(self.tensors.items()))
        with self.assertRaises(WrongStateError):
            self.llm.begin_update(manifest_of(self.tensors.items()))
        update.abort()
        self.llm.begin_update(manifest_of(self.tensors.items())).abort()

    def test_pieces_from_several_threads(self) -> None:
        other = changed(self.tensors)
        with self.llm.begin_update(manifest_of(other.items())) as update:

            def write(name: str, tensor: Any) -> None:
                content = tensor.tobytes()
                cut = len(content) // 3
                update.write(name, content[cut:], cut)
                update.write(name, content[:cut])

            threads = [threading.Thread(target=write, args=item) for item in other.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            update.prepare()
            update.commit()
        name = "model.embed_tokens.weight"
        self.assertEqual(np.from_dlpack(self.llm.get_weight(name)).tobytes(), other[name].tobytes())

    def test_leaving_without_a_commit_aborts(self) -> None:
        first = self.bits()
        with self.assertRaises(LookupError), self.llm.begin_update(manifest_of(self.tensors.items())) as update:
            update.write("model.norm.weight", self.tensors["model.norm.weight"])
            raise LookupError
        self.assertEqual(self.bits(), first)
        self.llm.update_weights(changed(self.tensors))

    def test_deadline_drops_the_update(self) -> None:
        update = self.llm.begin_update(manifest_of(self.tensors.items()), timeout_s=0.05)
        time.sleep(0.1)
        with self.assertRaises(DeadlineError) as caught:
            update.write("model.norm.weight", self.tensors["model.norm.weight"])
            update.commit()
        self.assertIsInstance(caught.exception, TimeoutError)
        self.llm.update_weights(changed(self.tensors))

    def test_what_is_no_tensors_and_no_option_is_said(self) -> None:
        for tensors in ("abc", None, [("a",)], [1]):
            with self.subTest(tensors=tensors), self.assertRaisesRegex(BadInputError, "pairs of name and tensor"):
                self.llm.update_weights(tensors)  # type: ignore[arg-type]
        with self.assertRaisesRegex(BadInputError, "must be of TensorInfo"):
            self.llm.begin_update([("a", "float16", (2,))])  # type: ignore[list-item]
        with self.assertRaisesRegex(TypeError, "no option 'kv'; there are kv_policy, base"):
            self.llm.update_weights(self.tensors, kv="keep")  # type: ignore[call-arg]

    def test_unknown_type_is_refused(self) -> None:
        with self.assertRaisesRegex(BadInputError, "x has the type complex64"):
            self.llm.begin_update([TensorInfo("x", "complex64", (1,))])

    def test_relabel(self) -> None:
        self.llm.set_weight_version(3)
        self.assertEqual(self.llm.weight_version, 3)
        (output,) = self.llm.generate([1], SamplingParams(max_tokens=1))
        self.assertEqual(output.outputs[0].weight_versions[0].version, 3)
        with self.assertRaises(ValueError):
            self.llm.set_weight_version(-1)

    def test_pause_holds_generation_back(self) -> None:
        self.llm.pause("keep")
        self.assertTrue(self.llm.paused)
        thread = threading.Thread(target=self.bits)
        thread.start()
        thread.join(0.2)
        self.assertTrue(thread.is_alive())
        self.llm.resume()
        thread.join()
        self.assertFalse(self.llm.paused)
        with self.assertRaisesRegex(ValueError, "keep, wait, abort, retract"):
            self.llm.pause("stop")  # type: ignore[arg-type]
        self.assertIs(self.llm.invalidate_kv_cache(), True)

    @needs_torch
    def test_torch_tensors_without_a_copy(self) -> None:
        import torch

        first = self.bits()
        ours = {name: torch.nn.Parameter(torch.tensor(tensor)) for name, tensor in changed(self.tensors).items()}
        self.llm.update_weights(ours)
        self.assertNotEqual(self.bits(), first)
        back = torch.from_dlpack(self.llm.get_weight("model.norm.weight"))
        self.assertTrue(torch.equal(back, ours["model.norm.weight"].detach()))
        meta = {**ours, "model.norm.weight": torch.empty(ours["model.norm.weight"].shape, dtype=torch.float16).t()}
        self.llm.update_weights({**ours, "model.norm.weight": meta["model.norm.weight"]})

    @needs_torch
    def test_bfloat16_of_torch(self) -> None:
        import torch

        with LLM(checkpoint("llama_text"), num_threads=1) as llm:
            names = llm.weight_checksums()
            self.assertEqual({entry.dtype for entry in names.values()}, {"bfloat16"})
            tensors = {name: torch.randn(entry.shape).to(torch.bfloat16) for name, entry in names.items()}
            llm.update_weights(tensors)
            for name, tensor in tensors.items():
                self.assertTrue(torch.equal(torch.from_dlpack(llm.get_weight(name)), tensor))


@needs_native
@needs_numpy
class InFlightTest(unittest.IsolatedAsyncioTestCase):
    """Updates while requests run."""

    async def test_t24_t32_tokens_name_the_weights_that_made_them_and_equal_a_fresh_prefill(self) -> None:
        llm = AsyncLLM(checkpoint(MODEL), num_threads=1)
        self.addCleanup(llm.shutdown)
        other = changed(tensors_of(MODEL))
        outputs = []
        async for output in llm.generate([1], SamplingParams(max_tokens=100, seed=2, ignore_eos=True, n=100)):
            outputs.append(output)
            if len(outputs) == 1:
                await llm.pause("keep", clear_cache=True)
                self.assertEqual(await llm.update_weights(other, kv_policy="recompute"), 1)
                await llm.resume()
        mixed = [sample for sample in outputs[-1].outputs if len(sample.weight_versions) > 1]
        self.assertGreater(len(mixed), 0)
        sample = mixed[0]
        spans = sample.weight_versions
        self.assertEqual([span.version for span in spans], [0, 1])
        self.assertEqual((spans[0].begin, spans[0].end, spans[1].end), (0, spans[1].begin, 100))
        head = sample.token_ids[: spans[1].begin]
        params = SamplingParams(
            max_tokens=100, seed=2, ignore_eos=True, n=sample.index + 1, output_prefix_len=len(head)
        )
        (fresh,) = [output async for output in llm.generate([1, *head], params) if output.finished]
        self.assertEqual(fresh.outputs[-1].token_ids, sample.token_ids[len(head) :])
        self.assertEqual(fresh.outputs[-1].token_logprobs, sample.token_logprobs[len(head) :])


if __name__ == "__main__":
    unittest.main()
