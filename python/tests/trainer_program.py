"""A trainer's code as it is written against NeMo RL's names, with one import changed. mypy checks it."""

from __future__ import annotations

from typing import Any, Optional

import rlgen.generation.interfaces as interfaces
from rlgen.generation.interfaces import (
    BatchedDataDict,
    GenerationConfig,
    GenerationDatumSpec,
    GenerationInterface,
    GenerationOutputSpec,
    GenerationSamplingParams,
    UnsupportedByDefault,
)


class EchoGeneration(UnsupportedByDefault):
    """A backend whose completion is the prompt."""

    def init_collective(self, ip: str, port: int, world_size: int, *, train_world_size: int) -> list[Any]:
        """Nothing to join."""
        return []

    def generate(
        self, data: BatchedDataDict[GenerationDatumSpec], greedy: bool
    ) -> BatchedDataDict[GenerationOutputSpec]:
        """The prompts again."""
        interfaces.verify_right_padding(data, pad_value=0)
        return BatchedDataDict(
            {
                "output_ids": data["input_ids"],
                "generation_lengths": data["input_lengths"] * 0,
                "unpadded_sequence_lengths": data["input_lengths"],
                "logprobs": data["input_ids"] * 0.0,
            }
        )

    def prepare_for_generation(self, *args: Any, **kwargs: Any) -> bool:
        """Always ready."""
        return True

    def finish_generation(self, *args: Any, **kwargs: Any) -> bool:
        """Nothing to give back."""
        return True

    def shutdown(self) -> bool:
        """Nothing to stop."""
        return True


def one_step(
    policy: GenerationInterface, config: GenerationConfig, data: BatchedDataDict[GenerationDatumSpec]
) -> tuple[BatchedDataDict[GenerationOutputSpec], GenerationSamplingParams, Optional[int]]:
    """What a loop does with a backend between two training steps."""
    sampling = GenerationSamplingParams.from_generation_config(config)
    policy.snapshot_step_metrics()
    policy.prepare_for_generation()
    output = policy.generate(data, greedy=False)
    policy.finish_generation(release_gpu=policy.blocks_training())
    if policy.pause_generation_for_refit(clear_cache=True, timeout_s=30.0):
        policy.resume_generation_after_refit(timeout_s=30.0)
    metrics: dict[str, float] = policy.get_step_metrics()
    spec = policy.get_collective_sender_spec()
    return output, sampling, spec.buffer_size_bytes if metrics else policy.get_inference_world_size()
