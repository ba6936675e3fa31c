#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/local/local_launcher.h"
#include "cli/bench/machine_limits.h"
#include "cli/bench/prompts.h"
#include "cli/bench/rows.h"
#include "cli/bench/shard_timing.h"
#include "cli/bench/work.h"
#include "cli/options.h"
#include "contract/shard.h"
#include "kernels/kv_layout.h"
#include "models/decoder_spec.h"
#include "refit/ipc_sender.h"

namespace rlgen::cli {

// Seconds of one token in the runs so far; two of the same index ran one after the other.
struct RecordingTimes {
  std::vector<double> off;  // nothing recorded
  std::vector<double> on;
};

// What the rows are measured with. One thread uses it.
struct BenchContext {
  explicit BenchContext(const BenchOptions& options) : options(options) {}

  const BenchOptions& options;

  models::DecoderSpec model;
  std::vector<std::string> files;  // that hold the weights
  kernels::KvLayout kv_layout;
  const kernels::KernelTable* kernels = nullptr;
  kernels::Profile profile = kernels::Profile::kFloat32;
  std::unique_ptr<ThreadPool> pool;  // as large as the shard's own

  ShardTimer timer;  // outlives the shards
  backends::LocalLauncher launcher;
  std::unique_ptr<ShardClient> shard;
  ShardInfo info;
  ModelCost cost;
  std::optional<LimitMeter> meter;
  std::optional<PromptMaker> prompts;

  int64_t resident_before = 0;                   // of the process, before the shard was started
  int64_t idle_bytes = 0;                        // that the shard took by its start
  int64_t load_peak_bytes = 0;                   // the most during its start; 0: not known
  int64_t run_peak_bytes = 0;                    // the most during the rows; 0: not known
  std::optional<refit::IpcBuffers> ipc_buffers;  // of the trainer; made by the first update
  int64_t first_update_bytes = 0;   // the most during the first update beyond what was there
  int32_t cached_prompts = 0;       // of those that decode rows repeat, were read before
  double batch_step_seconds = 0.0;  // the best decode step at batch 64; 0: none yet
  std::map<std::string, RecordingTimes> recording;  // by row
};

// The tokens of each prompt and the new tokens of each sequence of a row: enough for steps in which
// every sequence of a decode row decodes, unless --decode-tokens says otherwise.
int32_t prompt_tokens(const RowSpec& row, const BenchOptions& options);
int32_t new_tokens(const RowSpec& row, const BenchOptions& options);

// Why a row cannot be measured with this model and these options; empty where it can.
std::string why_not(const RowSpec& row, const BenchOptions& options, const ShardInfo& info,
                    const models::DecoderSpec& model);

}  // namespace rlgen::cli
