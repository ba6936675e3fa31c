#pragma once

#include <cstdint>
#include <optional>

#include "backends/local/free_memory.h"
#include "base/status.h"
#include "contract/numerics.h"
#include "contract/shard.h"
#include "engine/routes/route_store.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_layout.h"
#include "kernels/ops.h"
#include "models/model.h"
#include "tensor/dtype.h"

namespace rlgen::backends {

// What a ShardSpec's machine options come to here. Every error names the option, its value and
// what is allowed, and is one of the field's (contract/spec_error.h).
struct MachineChoice {
  const kernels::KernelTable* kernels = nullptr;
  int32_t num_threads = 1;
};

// 0 threads stand for every CPU that this process may use. kInvalidArgument for less and for more
// than the machine has CPUs, and select_kernels's errors.
StatusOr<MachineChoice> choose_machine(const ShardSpec& spec);

// "auto" (nothing: the checkpoint's types), float32, bfloat16 or float16.
StatusOr<std::optional<DType>> choose_dtype(const ShardSpec& spec);

// float32, or bfloat16 or bfloat16_amx, with which dtype must not be float16.
StatusOr<kernels::Profile> choose_profile(const ShardSpec& spec);

// Opens the spec's checkpoint with its context, type of weights and profile; their errors and those
// of models::open_model.
StatusOr<models::Model> open_model(const ShardSpec& spec);

// "auto" (what the profile rounds to), float32, bfloat16 or float16; block_size a multiple of
// 16 up to 1024. With room for `routes`. Errors of choose_profile too.
StatusOr<kernels::KvLayout> choose_kv_layout(const ShardSpec& spec,
                                             const models::DecoderSpec& model,
                                             const RouteFacts& routes = {});

// routed_experts_layers is moe, or all where routes are recorded; a model without experts has none
// to record.
StatusOr<engine::RouteCapture> choose_route_capture(const ShardSpec& spec,
                                                    const models::DecoderSpec& model);

// What the outputs of such a shard will carry.
NumericsId numerics_of(const models::Model& model, kernels::Profile profile,
                       const kernels::KvLayout& layout);

// Bytes for KV blocks. Given explicitly, they are taken, if they hold one sequence of max_model_len
// and the machine has as many. 0 takes what max_num_seqs sequences of max_model_len tokens need,
// but at most kv_cache_memory_fraction of `memory.free`. kResourceExhausted, with the numbers, when
// not one sequence of max_model_len fits, or more is asked for than there is; kInvalidArgument for
// a fraction outside its range or beside a number of bytes.
StatusOr<int64_t> choose_kv_bytes(const ShardSpec& spec, const kernels::KvLayout& layout,
                                  int32_t max_model_len, const MachineMemory& memory);

}  // namespace rlgen::backends
