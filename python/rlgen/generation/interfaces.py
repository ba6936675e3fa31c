"""The words that a trainer and a generation backend share.

The same names, kinds, fields, defaults and signatures as `nemo_rl.models.generation.interfaces`, so that
code written for that module runs with this one in its place. Torch is loaded only where one of its types
or tensors is handed out.
"""
# No "from __future__ import annotations": a TypedDict would not see NotRequired inside a string.

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, NotRequired, Optional, TypeAlias, TypedDict

from rlgen.errors import MissingKeyError, UnsupportedError
from rlgen.generation.batched_data_dict import BatchedDataDict
from rlgen.generation.config import (
    CheckpointEngineConfig,
    ColocationConfig,
    DisaggConfig,
    GenerationConfig,
    OptionalResourcesConfig,
    ResourcesConfig,
    should_use_async_rollouts,
)
from rlgen.generation.lazy_modules import LazyModule
from rlgen.generation.media import MediaColumnSpec
from rlgen.generation.padding import verify_right_padding
from rlgen.generation.routed_experts import (
    DTYPE_LIMITS,
    FALLBACK_NAME,
    get_num_routed_experts,
    resolve_routed_experts_dtype,
    resolve_routed_experts_dtype_name_for_model,
)

if TYPE_CHECKING:
    import ray
    import torch
else:
    torch = LazyModule("torch")
    ray = LazyModule("ray")

__all__ = [
    "ROUTED_EXPERTS_MISSING_ROUTE_SENTINEL",
    "BatchedDataDict",
    "CheckpointEngineConfig",
    "CollectiveSenderSpec",
    "ColocationConfig",
    "DisaggConfig",
    "GenerationConfig",
    "GenerationDatumSpec",
    "GenerationInterface",
    "GenerationOutputSpec",
    "GenerationSamplingParams",
    "MediaColumnSpec",
    "OptionalResourcesConfig",
    "ResourcesConfig",
    "UnsupportedByDefault",
    "agreed_media_columns",
    "get_num_routed_experts",
    "reject_unenforceable_refit_deadline",
    "resolve_routed_experts_dtype",
    "resolve_routed_experts_dtype_name_for_model",
    "should_use_async_rollouts",
    "verify_right_padding",
]

MasterConfig: TypeAlias = Any
"""The trainer's whole configuration; a mapping or an object whose attributes are its sections."""
DataPlaneConfig: TypeAlias = Any
"""How the trainer's data plane is reached."""

if TYPE_CHECKING:
    ROUTED_EXPERTS_FALLBACK_DTYPE: torch.dtype
    _ROUTED_EXPERTS_DTYPE_NAMES: dict[torch.dtype, str]
ROUTED_EXPERTS_MISSING_ROUTE_SENTINEL = -1


def __getattr__(name: str) -> Any:
    """The constants that are torch types."""
    if name == "ROUTED_EXPERTS_FALLBACK_DTYPE":
        return getattr(torch, FALLBACK_NAME)
    if name == "_ROUTED_EXPERTS_DTYPE_NAMES":
        return {getattr(torch, dtype): dtype for dtype in DTYPE_LIMITS}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@lru_cache(maxsize=None)
def _warn_unsupported_in_flight_refit_pause_once(backend_name: str) -> None:
    """Says on standard output, once a name, that a backend cannot pause for a refit."""
    print(
        f"WARNING: {backend_name} has no native pause for a refit; the refit goes on with the backend's own "
        "treatment of requests in flight"
    )


@dataclass
class GenerationSamplingParams:
    """How a rollout is sampled, handed through every entry point so that the caller's code shows it.

    A validation rollout makes one from the `val_` keys. Greedy decoding is an argument of its own.
    """

    temperature: float
    top_p: float
    top_k: int | None

    @classmethod
    def from_generation_config(cls, generation_config: GenerationConfig) -> "GenerationSamplingParams":
        """The profile of training. Raises MissingKeyError (a KeyError) for a key that is not there."""
        for key in ("temperature", "top_p", "top_k"):
            if key not in generation_config:
                raise MissingKeyError(f"{key} is not in the generation config")
        return cls(generation_config["temperature"], generation_config["top_p"], generation_config["top_k"])


class GenerationDatumSpec(TypedDict):
    """A batch to generate from.

    input_ids: [batch, width] whole numbers, right-padded. input_lengths: [batch]. stop_strings: one entry a
    sample, each None, a string or a list of strings. Further keys may travel along.
    """

    input_ids: "torch.Tensor"
    input_lengths: "torch.Tensor"
    stop_strings: NotRequired[list[str]]
    __extra__: Any


class GenerationOutputSpec(TypedDict):
    """A batch of completions.

    output_ids: [batch, width], each row prompt, completion, padding without a gap. generation_lengths,
    unpadded_sequence_lengths: [batch], of the completion and of both. logprobs: [batch, width] float32, 0 but
    for the completion, where the value at a token's own place is its natural log-probability.
    routed_experts: [batch, width, layers, k]. truncated: [batch], true where a length limit ended the sample.
    """

    output_ids: "torch.Tensor"
    generation_lengths: "torch.Tensor"
    unpadded_sequence_lengths: "torch.Tensor"
    logprobs: "torch.Tensor"
    routed_experts: NotRequired["torch.Tensor"]
    r3_routed_experts_missing_routes: NotRequired["torch.Tensor"]
    r3_routed_experts_expected_routes: NotRequired["torch.Tensor"]
    r3_routed_experts_actual_routes: NotRequired["torch.Tensor"]
    truncated: NotRequired["torch.Tensor"]
    __extra__: Any


@dataclass(frozen=True)
class CollectiveSenderSpec:
    """How the trainer has to send weights over a collective so that this backend understands."""

    nccl_peer: str = "nemo"
    buffer_size_bytes: int | None = None
    num_buffers: int | None = None
    use_legacy_packing: bool = False


def agreed_media_columns(reported: list[MediaColumnSpec | None]) -> MediaColumnSpec | None:
    """The one specification that the capture workers reported; None where none did.

    Raises RuntimeError when two differ, since one column cannot hold both.
    """
    specs = sorted({spec for spec in reported if spec is not None}, key=repr)
    if len(specs) > 1:
        raise RuntimeError(f"the capture workers pinned different media column specs: {specs}")
    return specs[0] if specs else None


def reject_unenforceable_refit_deadline(backend: str, refit_timeout_s: Optional[float]) -> None:
    """Refuses a deadline on behalf of a backend that could not keep it. None passes.

    Raises UnsupportedError (a NotImplementedError).
    """
    if refit_timeout_s is None:
        return
    raise UnsupportedError(
        f"{backend} cannot enforce a refit deadline of {refit_timeout_s} s: unset "
        "async_rl.generation_fleet_health.refit_timeout_s, or choose a transport whose workers have a watchdog of "
        "their own"
    )


def _unsupported(backend: object, member: str, key: str = "") -> NoReturn:
    asked = f" ({key} asked for it)" if key else ""
    raise UnsupportedError(f"{type(backend).__name__} does not support {member}{asked}")


class GenerationInterface(ABC):
    """What a trainer calls on a generation backend.

    Seventeen members are abstract. Their bodies raise UnsupportedError (a NotImplementedError) with the names
    of class and member, so that a subclass may say "unsupported" by calling them. Members that return futures
    return at once; the caller waits, with `rlgen.wait` or `ray.get`, and each future gives exactly True.
    """

    @classmethod
    def validate_settings(cls, master_config: "MasterConfig") -> None:
        """Checks the configuration before anything is built. Raises ValueError with the dotted key."""

    @abstractmethod
    def init_collective(
        self, ip: str, port: int, world_size: int, *, train_world_size: int
    ) -> "list[ray.ObjectRef]":
        """Joins the process group of a refit: the ranks of training first, then those of generation."""
        _unsupported(self, "init_collective")

    @abstractmethod
    def generate(
        self, data: BatchedDataDict["GenerationDatumSpec"], greedy: bool
    ) -> BatchedDataDict["GenerationOutputSpec"]:
        """Completes every row of a batch; row i of the result belongs to row i of `data`."""
        _unsupported(self, "generate")

    @abstractmethod
    def prepare_for_generation(self, *args: Any, **kwargs: Any) -> bool:
        """Starts or wakes the engines. Cheap and safe where they run already."""
        _unsupported(self, "prepare_for_generation")

    @abstractmethod
    def finish_generation(self, *args: Any, **kwargs: Any) -> bool:
        """Ends a phase. release_gpu (keyword, default True): the caller needs what the engines hold."""
        _unsupported(self, "finish_generation")

    @abstractmethod
    def shutdown(self) -> bool:
        """Stops everything. Repeated calls are safe."""
        _unsupported(self, "shutdown")

    @abstractmethod
    def pause_generation(self, mode: str) -> None:
        """Pauses what is in flight; the modes are the backend's own."""
        _unsupported(self, "pause_generation")

    @abstractmethod
    def continue_generation(self) -> None:
        """Goes on after pause_generation."""
        _unsupported(self, "continue_generation")

    @abstractmethod
    def restart_shard(self, shard_idx: int) -> Optional[str]:
        """Builds one shard anew, which may take minutes. Returns the URL of its server where it has one."""
        _unsupported(self, "restart_shard")

    @abstractmethod
    def shard_liveness_ref(self, shard_idx: int) -> "ray.ObjectRef":
        """A future that is done when the shard has answered that it lives."""
        _unsupported(self, "shard_liveness_ref")

    def log_shard_gpu_state(self, shard_idx: int, *, label: str, timeout_s: float = 30.0) -> None:
        """Prints what the shard's machine holds, for a diagnosis. Does nothing here, on purpose."""

    @property
    def requires_kv_scale_sync(self) -> bool:
        """Whether scales of the KV cache have to come with every refit."""
        return False

    @abstractmethod
    def prepare_refit_info(self, state_dict_info: Optional[dict[str, Any]]) -> Optional[list[str]]:
        """Learns which tensors will come: name to (shape, dtype), in order.

        Returns the names that the trainer should quantise before it sends them, or None.
        """
        _unsupported(self, "prepare_refit_info")

    @abstractmethod
    def update_weights_via_ipc_zmq(self) -> "list[ray.ObjectRef]":
        """Receives an update over a local socket."""
        _unsupported(self, "update_weights_via_ipc_zmq")

    @abstractmethod
    def update_weights_from_collective(self, refit_timeout_s: Optional[float] = None) -> "list[ray.ObjectRef]":
        """Receives an update over the collective, within the deadline in seconds where one is given."""
        _unsupported(self, "update_weights_from_collective")

    def get_collective_sender_spec(self) -> CollectiveSenderSpec:
        """How the trainer has to send over the collective."""
        return CollectiveSenderSpec()

    def get_inference_world_size(self) -> int | None:
        """How many ranks the engines take in the collective; None for as many as their cluster has."""
        return None

    @abstractmethod
    def prepare_nccl_reshard_refit_info(self, refit_info: dict) -> None:  # type: ignore[type-arg]
        """Learns how the trainer's tensors are split, layer by layer."""
        _unsupported(self, "prepare_nccl_reshard_refit_info")

    @abstractmethod
    def nccl_reshard_refit(self, refit_timeout_s: Optional[float] = None) -> "list[ray.ObjectRef]":
        """Receives an update shard by shard, within the deadline in seconds where one is given."""
        _unsupported(self, "nccl_reshard_refit")

    @abstractmethod
    def attach_fleet_health(self, monitor: Any, selector: Any) -> None:
        """Lets the selector choose shards from now on, and tells the monitor what is seen of them."""
        _unsupported(self, "attach_fleet_health", "async_rl.generation_fleet_health.enabled=true")

    @abstractmethod
    def setup_token_capture(
        self, dp_cfg: "DataPlaneConfig", staging_partition: str, *, capture_media: bool = False
    ) -> MediaColumnSpec | None:
        """Makes the workers capture the tokens of every call. Returns the media column that they pinned, if any."""
        _unsupported(self, "setup_token_capture", "token_capture.enabled=true")

    @abstractmethod
    def set_rollout_weight_version(self, version: int) -> None:
        """Names the weights that serve; every call admitted from then on carries the number."""
        _unsupported(self, "set_rollout_weight_version")

    def invalidate_kv_cache(self) -> bool:
        """True when no key or value of earlier weights will be read from here on; False says nothing."""
        return False

    def pause_generation_for_refit(self, *, clear_cache: bool, timeout_s: Optional[float] = None) -> bool:
        """Freezes what is in flight for a refit; with clear_cache its keys and values are rebuilt afterwards.

        True when all engines hold still. The default cannot do that: it says so once and returns False.
        """
        _warn_unsupported_in_flight_refit_pause_once(type(self).__name__)
        return False

    def resume_generation_after_refit(self, *, timeout_s: Optional[float] = None) -> bool:
        """Goes on after pause_generation_for_refit. True when all engines run; the default returns False."""
        _warn_unsupported_in_flight_refit_pause_once(type(self).__name__)
        return False

    def blocks_training(self) -> bool:
        """Whether the engines have to stand down before a training step."""
        return False

    def wake_carries_weight_updates(self) -> bool:
        """Whether prepare_for_generation alone makes the newest weights serve."""
        return False

    def clear_logger_metrics(self) -> None:
        """Forgets the samples that get_logger_metrics would give."""

    def get_logger_metrics(self) -> dict[str, Any]:
        """Samples since the last clear: metric to {worker: [samples]}."""
        return {}

    def snapshot_step_metrics(self) -> None:
        """Begins the window of one training step."""

    def get_step_metrics(self) -> dict[str, float]:
        """Ends that window and gives what it counted."""
        return {}

    def drain_latest_logger_metrics(self) -> dict[str, Any]:
        """The newest values, few of them, for frequent polls; what was behind them is gone."""
        return {}


class UnsupportedByDefault(GenerationInterface):
    """For backends written when only five members were abstract: the others say "unsupported".

    A subclass has to define init_collective, generate, prepare_for_generation, finish_generation and shutdown.
    """

    def pause_generation(self, mode: str) -> None:
        super().pause_generation(mode)

    def continue_generation(self) -> None:
        super().continue_generation()

    def restart_shard(self, shard_idx: int) -> Optional[str]:
        return super().restart_shard(shard_idx)

    def shard_liveness_ref(self, shard_idx: int) -> "ray.ObjectRef":
        return super().shard_liveness_ref(shard_idx)

    def prepare_refit_info(self, state_dict_info: Optional[dict[str, Any]]) -> Optional[list[str]]:
        return super().prepare_refit_info(state_dict_info)

    def update_weights_via_ipc_zmq(self) -> "list[ray.ObjectRef]":
        return super().update_weights_via_ipc_zmq()

    def update_weights_from_collective(self, refit_timeout_s: Optional[float] = None) -> "list[ray.ObjectRef]":
        return super().update_weights_from_collective(refit_timeout_s)

    def prepare_nccl_reshard_refit_info(self, refit_info: dict) -> None:  # type: ignore[type-arg]
        super().prepare_nccl_reshard_refit_info(refit_info)

    def nccl_reshard_refit(self, refit_timeout_s: Optional[float] = None) -> "list[ray.ObjectRef]":
        return super().nccl_reshard_refit(refit_timeout_s)

    def attach_fleet_health(self, monitor: Any, selector: Any) -> None:
        super().attach_fleet_health(monitor, selector)

    def setup_token_capture(
        self, dp_cfg: "DataPlaneConfig", staging_partition: str, *, capture_media: bool = False
    ) -> MediaColumnSpec | None:
        return super().setup_token_capture(dp_cfg, staging_partition, capture_media=capture_media)

    def set_rollout_weight_version(self, version: int) -> None:
        super().set_rollout_weight_version(version)
