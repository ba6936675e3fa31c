"""The sections of a trainer's configuration that concern generation."""
# No "from __future__ import annotations": a TypedDict would not see NotRequired inside a string.

from typing import Any, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, field_validator

from rlgen.errors import PreconditionError


class ResourcesConfig(TypedDict):
    """Machines for something."""

    gpus_per_node: int
    num_nodes: int


class OptionalResourcesConfig(TypedDict):
    """Machines for something, where null leaves the choice to the set-up. With rlgen a null counts as 1."""

    gpus_per_node: int | None
    num_nodes: int | None


class DisaggConfig(BaseModel):
    """Prefill and decode on engines of their own. rlgen refuses `enabled`.

    The numbers are per replica. Front end f of replica r listens on
    frontend_base_port + r * num_frontend_workers + f.
    """

    model_config = ConfigDict(extra="forbid")

    enabled: bool = False
    num_prefill_engines: int = 1
    num_decode_engines: int = 1
    num_frontend_workers: int = 1
    frontend_tokenize: bool = False
    frontend_base_port: int = 17300

    @field_validator("num_prefill_engines", "num_decode_engines", "num_frontend_workers", "frontend_base_port")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError(f"{value} is not at least 1")
        return value


class ColocationConfig(TypedDict):
    """Whether training and generation share their machines; if not, those of generation."""

    enabled: bool
    resources: OptionalResourcesConfig


class CheckpointEngineConfig(TypedDict):
    """How weights move through a checkpoint engine, as the set-up normalises it; nobody writes it by hand."""

    backend: str
    update_weights_bucket_memory_ratio: float
    engine_kwargs: dict[str, dict[str, Any]]


class GenerationConfig(TypedDict):
    """The section `policy.generation` of a trainer's configuration. docs/python.md says what each key does here."""

    backend: str
    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int | None
    val_temperature: float
    val_top_p: float
    val_top_k: int | None
    model_name: NotRequired[str]
    stop_token_ids: list[int] | None
    stop_strings: list[str] | None
    bad_words: NotRequired[list[str] | None]
    ignore_eos: NotRequired[bool]
    colocated: NotRequired[ColocationConfig]
    port_range_low: NotRequired[int]
    port_range_high: NotRequired[int]
    use_async_rollouts: NotRequired[bool]
    _pad_token_id: NotRequired[int]
    _draft_weights_from_refit: NotRequired[bool]
    _mtp_weights_from_refit: NotRequired[bool]
    _draft_full_refit: NotRequired[bool]
    _debug_payload_metrics: NotRequired[bool]
    disaggregation: NotRequired[DisaggConfig]


def should_use_async_rollouts(generation_config: GenerationConfig | None) -> bool:
    """Whether rollouts use the interface for single samples. False for what is not known.

    Raises PreconditionError (an AssertionError) for settings of TRT-LLM and Megatron that they refuse.
    """
    config: dict[str, Any] = dict(generation_config or {})
    backend = config.get("backend")
    if backend in ("rlgen", "dynamo"):
        return True
    if backend == "sglang":
        return bool(config.get("use_async_rollouts", False))
    if backend == "vllm":
        return bool((config.get("vllm_cfg") or {}).get("async_engine", False))
    if backend == "trtllm":
        if not (config.get("trtllm_cfg") or {}).get("async_engine"):
            raise PreconditionError(
                "TRT-LLM requires policy.generation.trtllm_cfg.async_engine=true; the synchronous path is no longer "
                "supported"
            )
        return True
    if backend == "megatron":
        if "async_engine" in (config.get("mcore_generation_config") or {}):
            raise PreconditionError(
                "Megatron always uses the async engine; policy.generation.mcore_generation_config.async_engine was "
                "removed: delete it"
            )
        return True
    return False


