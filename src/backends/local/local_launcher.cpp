#include "backends/local/local_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/local/free_memory.h"
#include "backends/local/shard_options.h"
#include "base/cpu.h"
#include "engine/weights/read_back.h"
#include "refit/checkpoint_transport.h"

namespace rlgen::backends {
namespace {

ShardInfo describe(const ShardSpec& spec, const models::Model& model, kernels::Profile profile,
                   const kernels::KvLayout& layout, const MachineChoice& machine) {
  ShardInfo info;
  info.backend = "local";
  info.model = spec.model;
  info.numerics = numerics_of(model, profile, layout);
  info.isa = kernels::isa_name(machine.kernels->isa);
  info.num_threads = machine.num_threads;
  info.max_model_len = model.max_model_len;
  info.eos_token_ids = model.eos_token_ids;
  info.weight_bytes = int64_t(model.decoder.table->total_bytes);
  info.kv_bytes_per_token = int64_t(layout.block_stride()) / layout.block_size;
  return info;
}

engine::EngineOptions engine_options(const ShardSpec& spec, const ShardInfo& info,
                                     engine::RouteCapture capture) {
  engine::EngineOptions options;
  options.max_num_seqs = spec.max_num_seqs;
  options.max_num_batched_tokens = spec.max_num_batched_tokens;
  options.num_threads = info.num_threads;
  options.enable_prefix_caching = spec.enable_prefix_caching;
  options.route_capture = capture;
  options.limits = {info.vocab_size, info.max_model_len, info.eos_token_ids};
  return options;
}

// What is free but for the weights, where they are not loaded yet, and for a second set of them,
// which an update fills (`weight_bytes` together). Bytes that somebody has named need no kernel
// that says what there is.
StatusOr<MachineMemory> memory_for_kv(const ShardSpec& spec, int64_t weight_bytes) {
  StatusOr<MachineMemory> memory = machine_memory();
  if (!memory.ok() && spec.kv_cache_memory_bytes > 0) return MachineMemory{.total = INT64_MAX};
  if (memory.ok()) memory->free = std::max<int64_t>(0, memory->free - weight_bytes);
  return memory;
}

std::string spill_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

Status load(const models::Model& model, int32_t num_threads, WeightSink& sink) {
  ThreadPool pool(num_threads);
  const UpdateSpec update{.update_id = "checkpoint", .version = 0, .serial = 1};
  return annotate(refit::send_checkpoint(model.tensors, update, sink, &pool), model.path);
}

}  // namespace

StatusOr<std::unique_ptr<LocalShard>> LocalLauncher::start_local(const ShardSpec& spec,
                                                                 EventSink& sink) {
  const std::lock_guard lock(mutex_);
  RLGEN_ASSIGN_OR_RETURN(const MachineChoice machine, choose_machine(spec));
  RLGEN_ASSIGN_OR_RETURN(const kernels::Profile profile, choose_profile(spec));
  RLGEN_ASSIGN_OR_RETURN(const models::Model model, open_model(spec));
  RLGEN_ASSIGN_OR_RETURN(const engine::RouteCapture capture,
                         choose_route_capture(spec, model.decoder.spec));
  const RouteFacts routes = engine::route_facts(capture, engine::route_layers(model.decoder.spec));
  RLGEN_ASSIGN_OR_RETURN(const kernels::KvLayout layout,
                         choose_kv_layout(spec, model.decoder.spec, routes));
  TextSide text;
  if (text_) {
    RLGEN_ASSIGN_OR_RETURN(text, text_(model.path));
  }
  ShardInfo info = describe(spec, model, profile, layout, machine);
  info.routes = routes;
  const int32_t vocab_rows = model.decoder.spec.vocab_rows;
  info.vocab_size = text.vocab_size > 0 ? std::min(text.vocab_size, vocab_rows) : vocab_rows;

  const std::string key =
      fmt::format("{}\n{}\n{}\n{}", model.path, model.digest, spec.dtype, spec.activation_dtype);
  std::shared_ptr<SharedWeights> weights = weights_[key].lock();
  RLGEN_ASSIGN_OR_RETURN(const MachineMemory memory,
                         memory_for_kv(spec, info.weight_bytes * (weights ? 1 : 2)));
  RLGEN_ASSIGN_OR_RETURN(const int64_t kv_bytes,
                         choose_kv_bytes(spec, layout, info.max_model_len, memory));
  RLGEN_ASSIGN_OR_RETURN(auto kv_memory, Region::create(kv_bytes));
  info.kv_capacity_tokens = kv_bytes / int64_t(layout.block_stride()) * layout.block_size;
  if (check_) RLGEN_RETURN_IF_ERROR(check_(info));

  if (!weights) {
    weights =
        std::make_shared<SharedWeights>(model.decoder.table, make_system_clock(), spill_folder());
    RLGEN_RETURN_IF_ERROR(load(model, machine.num_threads, *weights));
    weights_[key] = weights;
  }
  auto shard = std::make_unique<LocalShard>(info, std::move(weights));
  RLGEN_RETURN_IF_ERROR(
      shard->start_engine(engine_options(spec, info, capture),
                          {.decoder = std::make_shared<const models::Decoder>(model.decoder),
                           .kernels = machine.kernels,
                           .profile = profile,
                           .kv_memory = std::move(kv_memory),
                           .kv_layout = layout,
                           .watchers = std::move(text.watchers),
                           .sink = &sink,
                           .observer = observer_}));
  return shard;
}

StatusOr<std::unique_ptr<ShardClient>> LocalLauncher::start(const ShardSpec& spec,
                                                            EventSink& sink) {
  return start_local(spec, sink);
}

StatusOr<std::vector<ManifestEntry>> served_checksums(const models::Model& model) {
  SharedWeights weights(model.decoder.table, make_system_clock(), spill_folder());
  RLGEN_RETURN_IF_ERROR(load(model, usable_cpus(), weights));
  RLGEN_ASSIGN_OR_RETURN(const auto served, weights.store().served());
  return engine::served_checksums(*served.weights, served.manifest);
}

}  // namespace rlgen::backends
