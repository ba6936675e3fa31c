"""RlgenGeneration as a trainer drives it: phases, pauses, settings. Tests are named by the numbers of the contract."""

from __future__ import annotations

import asyncio
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend_support import COLOCATED, READY, GenerationTest, batch, config
from support import grow_checkpoint, needs_native, needs_numpy, needs_pydantic, resident_bytes

if TYPE_CHECKING or READY:
    import rlgen
    from rlgen import _native
    from rlgen.errors import UnsupportedError, WrongStateError
    from rlgen.generation import RlgenGeneration
    from rlgen.generation.interfaces import DisaggConfig, GenerationSamplingParams


@needs_native
@needs_numpy
@needs_pydantic
class LifeTest(GenerationTest):
    """Phases, pauses, configuration, what is refused."""

    def test_t15_prepare_is_cheap_and_idempotent(self) -> None:
        generation = self.start("llama", colocated=COLOCATED)
        engine = generation._engine.native
        for _ in range(3):
            self.assertIs(generation.prepare_for_generation(), True)
        self.assertIs(generation.prepare_for_generation(tags=["colocated_refit"]), True)
        self.assertIs(generation._engine.native, engine)
        expected = generation.generate(batch([3]), greedy=True)
        generation.finish_generation()
        self.assertEqual(engine.asleep(), (True, True))
        generation.prepare_for_generation(tags=["weights"])
        self.assertEqual(engine.asleep(), (False, True))
        with self.assertRaises(WrongStateError):
            generation.generate(batch([3]), greedy=True)
        generation.prepare_for_generation(tags=["kv_cache"])
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())

    def test_t16_release_gpu(self) -> None:
        generation = self.start("llama", colocated=COLOCATED)
        self.assertIs(generation.blocks_training(), True)
        expected = generation.generate(batch([3]), greedy=True)
        self.assertIs(generation.finish_generation(release_gpu=False), True)
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
        self.assertIs(generation.finish_generation(release_gpu=True), True)
        with self.assertRaisesRegex(RuntimeError, "asleep|sleep") as caught:
            generation.generate(batch([3]), greedy=True)
        self.assertIsInstance(caught.exception, WrongStateError)
        self.assertIs(generation.prepare_for_generation(), True)
        again = generation.generate(batch([3]), greedy=True)
        self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
        apart = self.start("llama")
        apart.finish_generation()
        apart.generate(batch([3]), greedy=True)

    def test_t16_memory_goes_back_to_the_system(self) -> None:
        """58 MB of weights and 50 MB of KV: back while the backend stands down, in every cycle."""
        with tempfile.TemporaryDirectory() as folder:
            grow_checkpoint("llama_fp16", Path(folder), rows=300_000, positions=1024)
            section = {"num_threads": 1, "kv_cache_memory_bytes": 64 << 20}
            generation = self.start("llama_fp16", model_name=folder, colocated=COLOCATED, rlgen_cfg=section)
        expected = generation.generate(batch([3]), greedy=True)
        generation.generate(batch(*([[row] * 1000 for row in range(3, 67)])), greedy=True)
        full = resident_bytes()
        generation.finish_generation(release_gpu=False)
        self.assertGreater(resident_bytes(), full - 5_000_000)
        for cycle in range(3):
            with self.subTest(cycle=cycle):
                generation.finish_generation(release_gpu=True)
                self.assertLess(resident_bytes(), full - 95_000_000)
                generation.prepare_for_generation(tags=["weights"])
                self.assertGreater(resident_bytes(), full - 60_000_000)
                generation.prepare_for_generation(tags=["kv_cache"])
                again = generation.generate(batch([3]), greedy=True)
                self.assertEqual(again["logprobs"].tolist(), expected["logprobs"].tolist())
                self.assertLess(resident_bytes(), full - 35_000_000)

    def test_t17_shutdown_twice(self) -> None:
        generation = self.start("llama")
        self.assertIs(generation.shutdown(), True)
        self.assertIs(generation.shutdown(), True)
        with self.assertRaises(rlgen.RlgenError):
            generation.generate(batch([3]), greedy=True)

    def test_seven_members_refuse_by_name(self) -> None:
        generation = self.start("llama")
        for member, call in {
            "init_collective": lambda: generation.init_collective("127.0.0.1", 1, 2, train_world_size=1),
            "update_weights_from_collective": generation.update_weights_from_collective,
            "prepare_nccl_reshard_refit_info": lambda: generation.prepare_nccl_reshard_refit_info({}),
            "nccl_reshard_refit": generation.nccl_reshard_refit,
            "attach_fleet_health": lambda: generation.attach_fleet_health(None, None),
            "restart_shard": lambda: generation.restart_shard(0),
            "setup_token_capture": lambda: generation.setup_token_capture(None, "x"),
        }.items():
            with self.subTest(member=member), self.assertRaisesRegex(UnsupportedError, f"RlgenGeneration.*{member}"):
                call()

    def test_t22_deadlines_that_nobody_keeps_are_refused(self) -> None:
        generation = self.start("llama")
        for call in (generation.update_weights_from_collective, generation.nccl_reshard_refit):
            with self.assertRaisesRegex(NotImplementedError, "async_rl.generation_fleet_health.refit_timeout_s"):
                call(30.0)

    def test_pause_modes(self) -> None:
        generation = self.start("llama")
        with self.assertRaisesRegex(ValueError, "keep, wait, abort, retract"):
            generation.pause_generation("kill")
        for mode in ("keep", "wait", "abort", "retract"):
            generation.pause_generation(mode)
            generation.pause_generation(mode)
            generation.continue_generation()
            generation.continue_generation()
        generation.pause_generation("keep")
        with self.assertRaises(WrongStateError):
            generation.pause_generation("wait")
        generation.continue_generation()
        self.assertIs(generation.resume_generation_after_refit(), True)
        for timeout in (0, -1.0, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "timeout_s is"):
                generation.pause_generation_for_refit(clear_cache=True, timeout_s=timeout)

    def test_t23_pause_keeps_requests_frozen(self) -> None:
        def made() -> int:
            return int(generation.get_logger_metrics()["generation_tokens"][0][-1])

        async def frozen(before: int) -> bool:
            """One request, frozen on its way; False where it was done before the pause."""
            task = asyncio.ensure_future(anext(generation.generate_async(batch([1], seeds=[3]))))
            while made() == before:
                await asyncio.sleep(0)
            self.assertIs(generation.pause_generation_for_refit(clear_cache=False), True)
            paused_at = made()
            on_the_way = paused_at - before < 200
            await asyncio.sleep(0.1 if on_the_way else 0)
            self.assertEqual(made(), paused_at)
            if on_the_way:
                self.assertFalse(task.done())
            self.assertIs(generation.resume_generation_after_refit(), True)
            _, output = await task
            self.assertEqual(output["output_ids"].tolist(), expected["output_ids"].tolist())
            self.assertEqual(output["logprobs"].tolist(), expected["logprobs"].tolist())
            return on_the_way

        generation = self.start("table_prefers_six", max_new_tokens=200)
        expected = generation.generate(batch([1], seeds=[3]), greedy=False)
        self.assertTrue(any(asyncio.run(frozen(made())) for _ in range(1000)))

    def test_liveness(self) -> None:
        generation = self.start("llama")
        self.assertIs(rlgen.wait(generation.shard_liveness_ref(0), 10), True)
        with self.assertRaisesRegex(ValueError, "there is no shard 1; shards go from 0 to 0"):
            generation.shard_liveness_ref(1)

    def test_facts(self) -> None:
        generation = self.start("llama")
        self.assertEqual(generation.dp_openai_server_base_urls, [None])
        self.assertEqual(generation.validation_sampling, GenerationSamplingParams(0.5, 0.9, None))
        self.assertIs(generation.blocks_training(), False)
        self.assertIs(generation.wake_carries_weight_updates(), False)
        self.assertIs(generation.requires_kv_scale_sync, False)
        self.assertIsNone(generation.prepare_refit_info({}))

    def test_t33_logger_metrics_and_their_drain(self) -> None:
        generation = self.start("llama")
        generation.generate(batch([3]), greedy=True)
        metrics = generation.get_logger_metrics()
        names = {"inflight_batch_sizes", "num_pending_samples", "kv_cache_usage_perc", "generation_tokens"}
        self.assertEqual(set(metrics), names)
        made = metrics["generation_tokens"][0][-1]
        self.assertGreater(made, 0)
        for name in names:
            self.assertEqual(list(metrics[name]), [0])
        self.assertEqual(generation.drain_latest_logger_metrics()["generation_tokens"], {0: [made]})
        generation.clear_logger_metrics()
        self.assertEqual(len(generation.get_logger_metrics()["generation_tokens"][0]), 1)

    def test_t34_step_window(self) -> None:
        generation = self.start("llama")
        generation.generate(batch([3]), greedy=True)
        generation.snapshot_step_metrics()
        output = generation.generate(batch([3, 4, 5]), greedy=True)
        step = generation.get_step_metrics()
        self.assertEqual(step["rlgen/generated_tokens"], float(output["generation_lengths"].sum()))
        self.assertTrue(all(isinstance(value, float) for value in step.values()))
        with self.assertWarnsRegex(RuntimeWarning, "without snapshot"):
            self.assertEqual(generation.get_step_metrics(), {})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            generation.snapshot_step_metrics()
        with self.assertWarnsRegex(RuntimeWarning, "twice"):
            generation.snapshot_step_metrics()

    def test_t36_config_errors_carry_the_dotted_key(self) -> None:
        for changes, kind, text in [
            ({"backend": "vllm"}, ValueError, r"policy\.generation\.backend"),
            ({"top_p": 0.0}, ValueError, r"policy\.generation\.top_p"),
            ({"max_new_token": 3}, ValueError, r"max_new_token.*max_new_tokens"),
            ({"disaggregation": DisaggConfig(enabled=True)}, NotImplementedError, r"disaggregation\.enabled"),
            ({"_draft_full_refit": True}, NotImplementedError, "_draft_full_refit"),
            ({"_mtp_weights_from_refit": True}, NotImplementedError, "_mtp_weights_from_refit"),
            ({"_draft_weights_from_refit": True}, NotImplementedError, "_draft_weights_from_refit"),
            ({"use_async_rollouts": False}, NotImplementedError, "use_async_rollouts"),
            ({"_debug_payload_metrics": True}, NotImplementedError, "_debug_payload_metrics"),
            ({"refit_transport": "nixl"}, NotImplementedError, "refit_transport"),
            ({"rlgen_cfg": {"max_num_seq": 3}}, ValueError, r"rlgen_cfg\.max_num_seq.*max_num_seqs"),
            ({"rlgen_cfg": {"block_size": 3}}, ValueError, r"rlgen_cfg\.block_size"),
            ({"model_name": "/nowhere"}, ValueError, "nowhere"),
        ]:
            with self.subTest(changes=changes), self.assertRaisesRegex(kind, text):
                RlgenGeneration(config("llama", **changes))
        short = config("llama")
        del short["model_name"], short["temperature"]
        with self.assertRaisesRegex(AssertionError, "model_name.*temperature|temperature.*model_name"):
            RlgenGeneration(short)

    def test_validate_settings(self) -> None:
        RlgenGeneration.validate_settings({"policy": {"generation": config("llama")}})
        for master, text in [
            ({"policy": {"generation": config("llama", top_k=0)}}, r"policy\.generation\.top_k"),
            ({}, r"policy\.generation"),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(rlgen.RlgenError, text):
                RlgenGeneration.validate_settings(master)

    def test_switches_of_what_is_not_there_are_refused(self) -> None:
        class Section:
            """A part of a trainer's configuration with attributes."""

            def __init__(self, name: str, value: Any) -> None:
                setattr(self, name, value)

        for key in _native.refused_settings():
            for value in (True, False, None):
                section: Any = value
                for name in key.split(".")[:0:-1]:
                    section = Section(name, section)
                master = {"policy": {"generation": config("llama")}}
                first = key.split(".")[0]
                if first == "policy":
                    section.generation = config("llama")
                master[first] = section
                with self.subTest(key=key, value=value):
                    if not value:
                        RlgenGeneration.validate_settings(master)
                        continue
                    with self.assertRaisesRegex(UnsupportedError, f"RlgenGeneration does not support {key}=true"):
                        RlgenGeneration.validate_settings(master)

    def test_a_cluster_is_of_this_machine(self) -> None:
        class Cluster:
            """What a trainer hands over."""

            def __init__(self, nodes: int) -> None:
                self.nodes = nodes

            def node_count(self) -> int:
                return self.nodes

        for cluster in (None, object(), Cluster(1)):
            RlgenGeneration(config("llama"), cluster=cluster).shutdown()
        with self.assertRaisesRegex(UnsupportedError, "cluster has 2 nodes"):
            RlgenGeneration(config("llama"), cluster=Cluster(2))

    def test_tokenizer_of_the_trainer_decides_the_pad_id(self) -> None:
        class Tokenizer:
            """What is looked at."""

            pad_token_id = 9
            eos_token_id = 2

        generation = RlgenGeneration(config("table_chain"), tokenizer=Tokenizer())
        self.addCleanup(generation.shutdown)
        data = batch([3], [1, 5])
        data["input_ids"][0, 1] = 9
        output = generation.generate(data, greedy=True)
        self.assertEqual(output["output_ids"].tolist(), [[3, 4, 5, 6, 2], [1, 5, 6, 2, 9]])


if __name__ == "__main__":
    unittest.main()
