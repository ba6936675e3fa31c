#include "cli/bench/refit_row.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "backends/local/shard_options.h"
#include "base/file.h"
#include "cli/bench/latencies.h"
#include "cli/bench/process_memory.h"
#include "cli/bench/saved_checkpoint.h"
#include "cli/bench/stopwatch.h"
#include "refit/checkpoint_transport.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"
#include "refit/memory_transport.h"
#include "tensor/region.h"

namespace rlgen::cli {
namespace {

using Moment = std::chrono::steady_clock::time_point;

constexpr int32_t kRefitSequences = 64;
constexpr int32_t kRefitPrompt = 16;
constexpr int32_t kRefitDecode = 96;
constexpr int64_t kCopyPieceBytes = int64_t{1} << 20;
constexpr int kCopyPasses = 3;
constexpr int kIdleUpdates = 3;

// A trainer's weights: those of the checkpoint in its memory, or these with another lowest bit.
struct Trainer {
  models::Model model;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<refit::NamedTensor> tensors;
  int64_t total = 0;
  std::optional<SavedCheckpoint> saved;  // of kDisk
  bool changed = false;                  // from the checkpoint
  KvPolicy kv_policy = KvPolicy::kKeep;

  // Every element changes, as it does in training.
  void step(ThreadPool& pool) {
    pool.run(static_cast<int64_t>(bytes.size()), [&](int64_t tensor, int) {
      const auto i = static_cast<size_t>(tensor);
      const auto size = static_cast<size_t>(size_of(tensors[i].view.dtype));
      for (size_t at = 0; at < bytes[i].size(); at += size) bytes[i][at] ^= std::byte{1};
    });
    changed = !changed;
  }
};

StatusOr<Trainer> open_trainer(const BenchContext& context) {
  RLGEN_ASSIGN_OR_RETURN(models::Model model, backends::open_model(context.options.engine.spec));
  Trainer trainer{.model = std::move(model), .bytes = {}, .tensors = {}, .total = 0};
  for (const models::StoredTensor& tensor : trainer.model.tensors.tensors()) {
    if (models::is_ignorable_tensor(tensor.name)) continue;
    trainer.total += static_cast<int64_t>(tensor.bytes.size());
    trainer.bytes.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    trainer.tensors.push_back(
        {tensor.name, dense_view(trainer.bytes.back().data(), tensor.dtype, tensor.shape)});
    drop_pages(tensor.bytes);
  }
  return trainer;
}

StatusOr<UpdateSpec> next_update(BenchContext& context, const Trainer& trainer) {
  RLGEN_ASSIGN_OR_RETURN(const ShardInfo info, context.shard->info());
  UpdateSpec spec{.update_id = fmt::format("bench {}", info.serial), .serial = info.serial + 1};
  spec.kv_policy = trainer.kv_policy;
  spec.cast = true;
  return spec;
}

Status send_from_process(BenchContext& context, const Trainer& trainer, UpdateSpec spec) {
  const std::string run = fmt::format("bench{}", ::getpid());
  RLGEN_ASSIGN_OR_RETURN(const std::string endpoint,
                         refit::ipc_endpoint(std::filesystem::temp_directory_path().string(), run,
                                             std::to_string(spec.serial)));
  for (const refit::NamedTensor& tensor : trainer.tensors) {
    spec.manifest.push_back({tensor.name, tensor.view.dtype, tensor.view.shape, {}});
  }
  if (!context.ipc_buffers) {
    RLGEN_ASSIGN_OR_RETURN(context.ipc_buffers, refit::IpcBuffers::create());
  }
  auto sent = std::async(std::launch::async, [&]() -> Status {
    RLGEN_ASSIGN_OR_RETURN(auto sender,
                           refit::IpcSender::create(endpoint, {.buffers = &*context.ipc_buffers}));
    for (const refit::NamedTensor& tensor : trainer.tensors) {
      RLGEN_RETURN_IF_ERROR(sender.send(tensor.name, tensor.view));
    }
    return sender.finish();
  });
  const auto received =
      refit::receive_ipc(endpoint, spec, *context.shard, {.pool = context.pool.get()});
  RLGEN_RETURN_IF_ERROR(sent.get());
  return received.status();
}

Status send_from_memory(BenchContext& context, const Trainer& trainer) {
  RLGEN_ASSIGN_OR_RETURN(const UpdateSpec spec, next_update(context, trainer));
  return refit::send_tensors(trainer.tensors, spec, *context.shard, context.pool.get());
}

Status send_over(BenchContext& context, RowTransport transport, const Trainer& trainer) {
  if (transport == RowTransport::kMemory) return send_from_memory(context, trainer);
  RLGEN_ASSIGN_OR_RETURN(const UpdateSpec spec, next_update(context, trainer));
  if (transport == RowTransport::kIpc) return send_from_process(context, trainer, spec);
  return refit::send_checkpoint(trainer.saved->tensors(), spec, *context.shard, context.pool.get());
}

// One update with weights that differ from the served ones. A checkpoint's are always the same, so
// others are put in their place before.
struct Sent {
  Moment begin;
  Moment end;
  int64_t peak_bytes = 0;  // beyond what was resident; 0: not known
};

// Until every sequence that decodes has made two more tokens, so that no step is slow because the
// trainer computed. At once where nothing runs.
void wait_for_steps(BenchContext& context) {
  const ShardMetrics before = context.shard->metrics();
  const int64_t wanted = before.generated_tokens + 2 * int64_t{before.running};
  while (context.shard->metrics().generated_tokens < wanted) {
    if (context.shard->metrics().running == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

StatusOr<Sent> send_once(BenchContext& context, RowTransport transport, Trainer& trainer) {
  trainer.step(*context.pool);
  if (transport == RowTransport::kDisk) {
    RLGEN_RETURN_IF_ERROR(send_from_memory(context, trainer));
    trainer.step(*context.pool);
  }
  wait_for_steps(context);
  const bool peak_is_own = reset_peak_memory();
  const StatusOr<ProcessMemory> before = read_process_memory();
  Sent sent;
  sent.begin = std::chrono::steady_clock::now();
  RLGEN_RETURN_IF_ERROR(send_over(context, transport, trainer));
  sent.end = std::chrono::steady_clock::now();
  const StatusOr<ProcessMemory> after = read_process_memory();
  if (peak_is_own && before.ok() && after.ok()) sent.peak_bytes = after->peak - before->resident;
  return sent;
}

// Seconds of one copy of `bytes`, from and to memory that was touched, by all threads.
StatusOr<double> copy_seconds(int64_t bytes, ThreadPool& pool) {
  RLGEN_ASSIGN_OR_RETURN(const auto from, Region::create(bytes));
  RLGEN_ASSIGN_OR_RETURN(const auto to, Region::create(bytes));
  std::memset(from->data(), 1, static_cast<size_t>(bytes));
  std::memset(to->data(), 1, static_cast<size_t>(bytes));
  const auto copy = [&] {
    pool.run((bytes + kCopyPieceBytes - 1) / kCopyPieceBytes, [&](int64_t piece, int) {
      const int64_t begin = piece * kCopyPieceBytes;
      const auto size = static_cast<size_t>(std::min(kCopyPieceBytes, bytes - begin));
      std::memcpy(to->data() + begin, from->data() + begin, size);
    });
  };
  return best_seconds(
      kCopyPasses, [] {}, copy);
}

// What an update cost the sequences that decoded meanwhile.
struct Delay {
  double step = 0.0;         // median gap between two tokens of a sequence at other times
  std::vector<double> gaps;  // those that meet the update
  std::vector<double> lost;  // by sequence: those of its gaps that met it, beyond a step each
};

Delay delay_of(const ShardTimer::Run& run, const Sent& sent) {
  std::map<SequenceId, Moment> last;
  std::map<SequenceId, std::vector<double>> met;
  std::vector<double> other;
  for (const TokenTime& token : run.tokens) {
    const auto [before, first] = last.try_emplace(token.id, token.time);
    if (first) continue;
    const double gap = seconds_between(before->second, token.time);
    const bool meets = token.time >= sent.begin && before->second <= sent.end;
    (meets ? met[token.id] : other).push_back(gap);
    before->second = token.time;
  }
  Delay delay{.step = percentile(other, 0.5), .gaps = {}, .lost = {}};
  for (const auto& [id, gaps] : met) {
    double lost = 0.0;
    for (const double gap : gaps) lost += gap - delay.step;
    delay.lost.push_back(lost);
    delay.gaps.insert(delay.gaps.end(), gaps.begin(), gaps.end());
  }
  return delay;
}

// An update while sequences decode.
StatusOr<Delay> measure_under_load(BenchContext& context, const RowSpec& row, Trainer& trainer,
                                   Sent* sent) {
  const int32_t room = context.info.max_model_len;
  const int32_t sequences = std::min(kRefitSequences, context.options.engine.spec.max_num_seqs);
  const int32_t decode = std::min(kRefitDecode, room / 2);
  auto requests = context.prompts->fresh(sequences, std::min(kRefitPrompt, room / 4), decode);
  const int64_t made_before = context.shard->metrics().generated_tokens;
  auto running = std::async(std::launch::async,
                            [&] { return context.timer.run(*context.shard, std::move(requests)); });
  const int64_t warm = made_before + int64_t{sequences} * decode / 4;
  while (context.shard->metrics().generated_tokens < warm) {
    if (running.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready) break;
  }
  const StatusOr<Sent> one = send_once(context, row.transport, trainer);
  RLGEN_ASSIGN_OR_RETURN(const ShardTimer::Run run, running.get());
  RLGEN_RETURN_IF_ERROR(one.status());
  *sent = *one;
  return delay_of(run, *one);
}

// What sequences lose that keep their keys and values.
Status measure_kept(BenchContext& context, const RowSpec& row, Trainer& trainer, Figure* figure) {
  Sent sent;
  RLGEN_ASSIGN_OR_RETURN(const Delay delay, measure_under_load(context, row, trainer, &sent));
  figure->details.emplace_back("busy_ms", 1e3 * seconds_between(sent.begin, sent.end));
  figure->details.emplace_back("step_ms", 1e3 * delay.step);
  figure->details.emplace_back("gap_p99_ms", 1e3 * percentile(delay.gaps, 0.99));
  if (delay.step > 0.0 && !delay.lost.empty()) {
    figure->details.emplace_back("lost_steps_p99", percentile(delay.lost, 0.99) / delay.step);
  }
  return absl::OkStatus();
}

// What they lose that rebuild them, however the weights came.
Status measure_rebuilt(BenchContext& context, const RowSpec& row, Trainer& trainer,
                       Figure* figure) {
  trainer.kv_policy = KvPolicy::kRecompute;
  Sent sent;
  const StatusOr<Delay> delay = measure_under_load(context, row, trainer, &sent);
  trainer.kv_policy = KvPolicy::kKeep;
  RLGEN_RETURN_IF_ERROR(delay.status());
  if (!delay->lost.empty()) {
    figure->details.emplace_back("recompute_lost_ms_p99", 1e3 * percentile(delay->lost, 0.99));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Figure> measure_refit(BenchContext& context, const RowSpec& row) {
  RLGEN_ASSIGN_OR_RETURN(Trainer trainer, open_trainer(context));
  if (row.transport == RowTransport::kDisk) {
    RLGEN_ASSIGN_OR_RETURN(trainer.saved, SavedCheckpoint::create(trainer.model.tensors));
  }
  RLGEN_ASSIGN_OR_RETURN(const Sent first, send_once(context, row.transport, trainer));
  if (context.first_update_bytes == 0) context.first_update_bytes = first.peak_bytes;
  double copy = 0.0;
  double seconds = 0.0;
  int64_t peak_bytes = 0;
  for (int update = 0; update < kIdleUpdates; ++update) {
    RLGEN_ASSIGN_OR_RETURN(const double copied, copy_seconds(trainer.total, *context.pool));
    RLGEN_ASSIGN_OR_RETURN(const Sent sent, send_once(context, row.transport, trainer));
    const double spent = seconds_between(sent.begin, sent.end);
    copy = update == 0 ? copied : std::min(copy, copied);
    seconds = update == 0 ? spent : std::min(seconds, spent);
    peak_bytes = std::max(peak_bytes, sent.peak_bytes);
  }
  const int copies = row.transport == RowTransport::kIpc ? 2 : 1;
  Figure figure{.row = row.name, .value = 1e3 * seconds, .unit = "ms"};
  set_limit(&figure, 1e3 * copies * copy, copies == 1 ? "one copy" : "two copies");
  figure.details = {{"times_the_copies", seconds / (copies * copy)},
                    {"tensors_per_second", static_cast<double>(trainer.tensors.size()) / seconds},
                    {"megabytes", static_cast<double>(trainer.total) / 1e6},
                    {"peak_mb", static_cast<double>(peak_bytes) / 1e6},
                    {"first_peak_mb", static_cast<double>(context.first_update_bytes) / 1e6}};
  RLGEN_RETURN_IF_ERROR(measure_kept(context, row, trainer, &figure));
  if (row.transport == RowTransport::kMemory) {
    RLGEN_RETURN_IF_ERROR(measure_rebuilt(context, row, trainer, &figure));
  }
  if (trainer.changed) {  // the rows behind this one want the checkpoint
    trainer.step(*context.pool);
    RLGEN_RETURN_IF_ERROR(send_from_memory(context, trainer));
  }
  context.cached_prompts = 0;  // what the prefix cache has is of earlier weights
  return figure;
}

}  // namespace rlgen::cli
