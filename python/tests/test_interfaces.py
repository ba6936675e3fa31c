"""rlgen.generation.interfaces: the words of the contract."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import tempfile
import time
import unittest
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support import has, needs_numpy, needs_pydantic, needs_torch

if TYPE_CHECKING or (has("numpy") and has("pydantic")):
    import numpy as np

    from rlgen.errors import BadInputError, MissingKeyError, PreconditionError, UnsupportedError
    from rlgen.generation import BatchedDataDict, interfaces
    from rlgen.generation import routed_experts as routes


def batch(**columns: Any) -> BatchedDataDict[Any]:
    """A batch of numpy arrays."""
    return BatchedDataDict({key: np.array(value) for key, value in columns.items()})


@needs_numpy
@needs_pydantic
class RoutedExpertsTest(unittest.TestCase):
    """T1, and the envelope."""

    def test_t1_number_of_experts(self) -> None:
        for names, number in [
            ({"num_experts": 8}, 8),
            ({"n_routed_experts": 160}, 160),
            ({"num_local_experts": 4}, 4),
            ({"num_experts": 8, "num_local_experts": 4}, 8),
            ({"num_experts": 0, "num_local_experts": 4}, 4),
            ({"num_experts": "8"}, None),
            ({"num_experts": True}, None),
            ({"num_experts": -1}, None),
            ({}, None),
            ({"text_config": SimpleNamespace(num_experts=6)}, 6),
            ({"num_experts": 3, "text_config": SimpleNamespace(num_experts=6)}, 3),
        ]:
            with self.subTest(names=names):
                self.assertEqual(interfaces.get_num_routed_experts(SimpleNamespace(**names)), number)
        self.assertIsNone(interfaces.get_num_routed_experts(None))

    def test_t1_name_of_the_type_for_a_model(self) -> None:
        cases = [(None, "int16"), (1, "int8"), (128, "int8"), (129, "int16"), (32768, "int16"), (32769, "int32")]
        for number, name in cases:
            with self.subTest(number=number), tempfile.TemporaryDirectory() as folder:
                config = {"text_config": {"num_experts": number}} if number else {}
                Path(folder, "config.json").write_text(json.dumps(config))
                self.assertEqual(interfaces.resolve_routed_experts_dtype_name_for_model(folder), name)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text("{")
            self.assertEqual(interfaces.resolve_routed_experts_dtype_name_for_model(folder), "int16")

    @needs_torch
    def test_t1_dtype_boundaries(self) -> None:
        import torch

        resolve = interfaces.resolve_routed_experts_dtype
        self.assertIs(resolve(None), interfaces.ROUTED_EXPERTS_FALLBACK_DTYPE)
        self.assertIs(interfaces.ROUTED_EXPERTS_FALLBACK_DTYPE, torch.int16)
        kinds = [resolve(number) for number in (0, 1, 128, 129, 32768, 32769)]
        self.assertEqual(kinds, [torch.int8] * 3 + [torch.int16] * 2 + [torch.int32])
        names = {torch.int8: "int8", torch.int16: "int16", torch.int32: "int32"}
        self.assertEqual(interfaces._ROUTED_EXPERTS_DTYPE_NAMES, names)
        self.assertEqual(interfaces.ROUTED_EXPERTS_MISSING_ROUTE_SENTINEL, -1)

    def test_envelope_text(self) -> None:
        text = routes.encode_routed_experts(np.arange(6, dtype=np.int16).reshape(3, 1, 2))
        self.assertEqual(text, "nrlre1:int16:3x1x2:AAABAAIAAwAEAAUA")
        for wrong in (np.zeros((1, 1, 1), np.int64), np.zeros((1, 1), np.int8), np.zeros((1, 1, 1))):
            with self.assertRaisesRegex(BadInputError, r"must be \[tokens, layers, k\]"):
                routes.encode_routed_experts(wrong)

    def test_fb241_a_long_context_is_small_and_quick(self) -> None:
        """A byte for each of 12.6 million ids, as text, both ways in less than a second of a processor."""
        values = (np.arange(32768 * 48 * 8) % 128).astype(np.int8).reshape(32768, 48, 8)
        start = time.process_time()
        text = routes.encode_routed_experts(values)
        name, shape, content = routes._open_envelope(text)
        self.assertLess(time.process_time() - start, 1.0)
        self.assertLessEqual(len(text), values.size / 3 * 4 + 32)
        self.assertEqual((name, shape), ("int8", values.shape))
        self.assertEqual(content, values.tobytes())

    @needs_torch
    def test_fb241_a_tensor_of_a_long_context(self) -> None:
        import torch

        values = torch.arange(32768 * 48 * 8).remainder(128).to(torch.int8).reshape(32768, 48, 8)
        start = time.process_time()
        back = routes.decode_routed_experts(routes.encode_routed_experts(values))
        self.assertLess(time.process_time() - start, 1.0)
        self.assertTrue(torch.equal(back, values))

    def test_malformed_envelope_is_refused(self) -> None:
        for text in ("", "nrlre1:int16:3x1x2", "x:int8:1x1x1:AA==", "nrlre1:int64:1x1x1:AA==", "nrlre1:int8:1x1:AA==",
                     "nrlre1:int8:1x1xk:AA==", "nrlre1:int8:1x1x1:A", "nrlre1:int8:2x1x1:AA==", None):
            with self.subTest(text=text), self.assertRaises(BadInputError):
                routes.decode_routed_experts(text)

    @needs_torch
    def test_envelope_round_trip(self) -> None:
        import torch

        for dtype in (torch.int8, torch.int16, torch.int32):
            for shape in ((3, 2, 4), (0, 2, 4)):
                values = torch.randint(-1, 100, shape, dtype=dtype)
                back = routes.decode_routed_experts(routes.encode_routed_experts(values))
                self.assertIs(back.dtype, dtype)
                self.assertTrue(torch.equal(back, values))
        self.assertEqual(routes.decode_routed_experts([[[1, 2]]]).tolist(), [[[1, 2]]])
        with self.assertRaises(BadInputError):
            routes.decode_routed_experts([[1, 2], [3]])


@needs_numpy
@needs_pydantic
class PaddingTest(unittest.TestCase):
    """T2."""

    def test_t2_right_padded(self) -> None:
        good = batch(input_ids=[[1, 2, 0], [0, 0, 3], [0, 0, 0]], input_lengths=[2, 3, 0])
        self.assertEqual(interfaces.verify_right_padding(good), (True, None))
        empty = batch(input_ids=np.zeros((0, 0), np.int64), input_lengths=np.zeros(0, np.int64))
        self.assertEqual(interfaces.verify_right_padding(empty), (True, None))
        output = batch(output_ids=[[1, 9]], unpadded_sequence_lengths=[1])
        self.assertEqual(interfaces.verify_right_padding(output, pad_value=9), (True, None))

    def test_t2_every_fault_is_named(self) -> None:
        for data, pad, text in [
            (batch(input_ids=[[1, 0, 0], [0, 2, 3]], input_lengths=[1, 1]), 0, r"input_ids\[1\].*at \[1, 2\]"),
            (batch(input_ids=[[1, 0]], input_lengths=[1]), 5, r"padded with 5.*at \[1\]"),
            (batch(input_ids=[1, 2], input_lengths=[1, 1]), 0, r"shape \(2,\)"),
            (batch(input_ids=[[[1]]], input_lengths=[1]), 0, r"shape \(1, 1, 1\)"),
            (batch(input_ids=[[1]], input_lengths=[1, 1]), 0, "2 lengths for a batch of 1"),
            (batch(input_ids=[[1]], input_lengths=[2]), 0, r"input_lengths\[0\] is 2.*room for 1"),
            (batch(input_ids=[[1]], input_lengths=[-1]), 0, r"input_lengths\[0\] is -1"),
            (batch(input_ids=[[1]]), 0, r"\['input_ids'\].*input_lengths.*unpadded_sequence_lengths"),
            (batch(output_ids=[[1]], generation_lengths=[1]), 0, "unpadded_sequence_lengths"),
        ]:
            with self.subTest(text=text):
                with self.assertRaisesRegex(BadInputError, text):
                    interfaces.verify_right_padding(data, pad)
                good, why = interfaces.verify_right_padding(data, pad, raise_error=False)
                self.assertFalse(good)
                self.assertRegex(str(why), text)

    def test_t2_input_pair_wins(self) -> None:
        both = batch(input_ids=[[1, 0]], input_lengths=[1], output_ids=[[1, 2]], unpadded_sequence_lengths=[1])
        self.assertEqual(interfaces.verify_right_padding(both), (True, None))

    def test_t2_no_batch_and_no_pad_id_are_assertions(self) -> None:
        with self.assertRaisesRegex(AssertionError, "data is a dict"):
            interfaces.verify_right_padding({}, raise_error=False)  # type: ignore[arg-type]
        with self.assertRaisesRegex(PreconditionError, "pad_token_id"):
            interfaces.verify_right_padding(batch(), None, raise_error=False)  # type: ignore[arg-type]

    def test_t2_a_trainers_own_class_is_a_batch(self) -> None:
        class Own(dict[str, Any]):
            size = 1

            def slice(self, start: int, end: int) -> None: ...
            def get_dict(self) -> None: ...
            @classmethod
            def from_batches(cls, batches: Any) -> None: ...

        own = Own(input_ids=np.array([[1]]), input_lengths=np.array([1]))
        self.assertEqual(interfaces.verify_right_padding(own), (True, None))  # type: ignore[arg-type]


@needs_numpy
@needs_pydantic
class WordsTest(unittest.TestCase):
    """Configuration, sampling profile, sender, media columns, deadlines."""

    def test_disagg_config(self) -> None:
        config = interfaces.DisaggConfig()
        self.assertEqual(
            config.model_dump(),
            {
                "enabled": False,
                "num_prefill_engines": 1,
                "num_decode_engines": 1,
                "num_frontend_workers": 1,
                "frontend_tokenize": False,
                "frontend_base_port": 17300,
            },
        )
        for wrong in ({"num_prefill_engines": 0}, {"num_decode_engines": -1}, {"num_frontend_workers": 0}, {"x": 1}):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, next(iter(wrong))):
                interfaces.DisaggConfig(**wrong)

    def test_sampling_params_from_config(self) -> None:
        config: Any = {"temperature": 0.5, "top_p": 0.9, "top_k": None, "val_temperature": 1.0, "val_top_p": 1.0}
        params = interfaces.GenerationSamplingParams.from_generation_config(config)
        self.assertEqual(params, interfaces.GenerationSamplingParams(0.5, 0.9, None))
        for key in ("temperature", "top_p", "top_k"):
            with self.assertRaisesRegex(KeyError, key) as caught:
                interfaces.GenerationSamplingParams.from_generation_config(
                    {name: value for name, value in config.items() if name != key}  # type: ignore[arg-type]
                )
            self.assertIsInstance(caught.exception, MissingKeyError)

    def test_sender_spec_is_a_frozen_value(self) -> None:
        spec = interfaces.CollectiveSenderSpec()
        self.assertEqual(spec, interfaces.CollectiveSenderSpec("nemo", None, None, False))
        with self.assertRaises(FrozenInstanceError):
            spec.nccl_peer = "vllm"  # type: ignore[misc]

    def test_media_columns_must_agree(self) -> None:
        one: Any = interfaces.MediaColumnSpec("float32", 14)  # type: ignore[arg-type]
        other: Any = interfaces.MediaColumnSpec("float32", 16)  # type: ignore[arg-type]
        self.assertIsNone(interfaces.agreed_media_columns([]))
        self.assertIsNone(interfaces.agreed_media_columns([None, None]))
        self.assertEqual(interfaces.agreed_media_columns([None, one, one]), one)
        with self.assertRaisesRegex(RuntimeError, "different media column specs"):
            interfaces.agreed_media_columns([one, other])

    def test_t22_unenforceable_deadline(self) -> None:
        interfaces.reject_unenforceable_refit_deadline("trtllm", None)
        for value in (30.0, 0, -1.0):
            with self.assertRaisesRegex(
                NotImplementedError, rf"trtllm.*{value}.*async_rl.generation_fleet_health.refit_timeout_s"
            ):
                interfaces.reject_unenforceable_refit_deadline("trtllm", value)

    def test_t36_async_rollouts(self) -> None:
        for config, answer in [
            (None, False),
            ({}, False),
            ({"backend": "other"}, False),
            ({"backend": "rlgen"}, True),
            ({"backend": "dynamo"}, True),
            ({"backend": "sglang"}, False),
            ({"backend": "sglang", "use_async_rollouts": True}, True),
            ({"backend": "vllm"}, False),
            ({"backend": "vllm", "vllm_cfg": {}}, False),
            ({"backend": "vllm", "vllm_cfg": {"async_engine": True}}, True),
            ({"backend": "trtllm", "trtllm_cfg": {"async_engine": True}}, True),
            ({"backend": "megatron"}, True),
            ({"backend": "megatron", "mcore_generation_config": {}}, True),
        ]:
            with self.subTest(config=config):
                self.assertIs(interfaces.should_use_async_rollouts(config), answer)  # type: ignore[arg-type]

    def test_t36_assertion_texts(self) -> None:
        for config, text in [
            ({"backend": "trtllm"}, r"trtllm_cfg\.async_engine=true.*no longer supported"),
            ({"backend": "trtllm", "trtllm_cfg": {"async_engine": False}}, r"trtllm_cfg\.async_engine"),
            (
                {"backend": "megatron", "mcore_generation_config": {"async_engine": True}},
                r"policy\.generation\.mcore_generation_config\.async_engine was removed",
            ),
        ]:
            with self.subTest(config=config), self.assertRaisesRegex(AssertionError, text):
                interfaces.should_use_async_rollouts(config)  # type: ignore[arg-type]


FIVE = ("init_collective", "generate", "prepare_for_generation", "finish_generation", "shutdown")
SEVENTEEN = {
    *FIVE,
    "pause_generation",
    "continue_generation",
    "restart_shard",
    "shard_liveness_ref",
    "prepare_refit_info",
    "update_weights_via_ipc_zmq",
    "update_weights_from_collective",
    "prepare_nccl_reshard_refit_info",
    "nccl_reshard_refit",
    "attach_fleet_health",
    "setup_token_capture",
    "set_rollout_weight_version",
}


def concrete(name: str, base: type, members: set[str]) -> Any:
    """A subclass of `base` that defines `members` by calling the abstract ones."""

    def delegate(member: str) -> Any:
        return lambda self, *args, **kwargs: getattr(interfaces.GenerationInterface, member)(self, *args, **kwargs)

    return type(name, (base,), {member: delegate(member) for member in members})


@needs_numpy
@needs_pydantic
class TrainerProgramTest(unittest.TestCase):
    """Code written against NeMo RL's names."""

    def test_one_step(self) -> None:
        import trainer_program

        data = batch(input_ids=[[1, 2, 0]], input_lengths=[2])
        config: Any = {"temperature": 1.0, "top_p": 1.0, "top_k": None}
        with contextlib.redirect_stdout(io.StringIO()):
            output, sampling, size = trainer_program.one_step(trainer_program.EchoGeneration(), config, data)
        self.assertEqual(output["output_ids"].tolist(), [[1, 2, 0]])
        self.assertEqual((sampling.temperature, size), (1.0, None))


@needs_numpy
@needs_pydantic
class InterfaceTest(unittest.TestCase):
    """The abstract class."""

    def test_t35_a_class_without_one_of_the_seventeen_cannot_be_built(self) -> None:
        self.assertEqual(interfaces.GenerationInterface.__abstractmethods__, SEVENTEEN)
        for member in SEVENTEEN:
            with self.subTest(member=member), self.assertRaisesRegex(TypeError, member):
                concrete("Short", interfaces.GenerationInterface, SEVENTEEN - {member})()
        concrete("Whole", interfaces.GenerationInterface, SEVENTEEN)()

    def test_abstract_bodies_name_class_and_member(self) -> None:
        backend = concrete("Whole", interfaces.GenerationInterface, SEVENTEEN)()
        for member in SEVENTEEN:
            parameters = inspect.signature(getattr(interfaces.GenerationInterface, member)).parameters.values()
            positional = [0 for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty][1:]
            keywords = {p.name: 0 for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
            with self.subTest(member=member), self.assertRaisesRegex(UnsupportedError, f"Whole .*{member}"):
                getattr(backend, member)(*positional, **keywords)

    def test_mixin_for_backends_of_five_members(self) -> None:
        backend = concrete("Five", interfaces.UnsupportedByDefault, set(FIVE))()
        with self.assertRaisesRegex(NotImplementedError, r"Five .*attach_fleet_health .*generation_fleet_health\.enabled=true"):
            backend.attach_fleet_health(None, None)
        for member in FIVE:
            with self.assertRaisesRegex(TypeError, member):
                concrete("Four", interfaces.UnsupportedByDefault, set(FIVE) - {member})()

    def test_defaults_of_the_concrete_members(self) -> None:
        backend = concrete("Whole", interfaces.GenerationInterface, SEVENTEEN)()
        self.assertIs(backend.requires_kv_scale_sync, False)
        self.assertEqual(backend.get_collective_sender_spec(), interfaces.CollectiveSenderSpec())
        self.assertIsNone(backend.get_inference_world_size())
        self.assertIs(backend.invalidate_kv_cache(), False)
        self.assertIs(backend.blocks_training(), False)
        self.assertIs(backend.wake_carries_weight_updates(), False)
        self.assertEqual(backend.get_logger_metrics(), {})
        self.assertEqual(backend.get_step_metrics(), {})
        self.assertEqual(backend.drain_latest_logger_metrics(), {})
        for nothing in (
            backend.validate_settings({}),
            backend.log_shard_gpu_state(0, label="x"),
            backend.clear_logger_metrics(),
            backend.snapshot_step_metrics(),
        ):
            self.assertIsNone(nothing)

    def test_t25_pause_hooks_warn_once_a_class(self) -> None:
        interfaces._warn_unsupported_in_flight_refit_pause_once.cache_clear()
        backends = [concrete(name, interfaces.GenerationInterface, SEVENTEEN)() for name in ("One", "Two", "One")]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for backend in backends:
                self.assertIs(backend.pause_generation_for_refit(clear_cache=True), False)
                self.assertIs(backend.resume_generation_after_refit(timeout_s=1.0), False)
        lines = printed.getvalue().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("One", lines[0])
        self.assertIn("Two", lines[1])


if __name__ == "__main__":
    unittest.main()
