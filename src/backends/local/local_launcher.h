#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/local/local_shard.h"
#include "contract/shard.h"

namespace rlgen::backends {

// What a shard needs of a model's text side.
struct TextSide {
  TokenWatcherFactory watchers;  // empty: requests with stop strings are refused
  int32_t vocab_size = 0;        // highest token id + 1; 0: not known, every row of the head counts
};

// Reads the text side of a checkpoint folder.
using TextSideFactory = std::function<StatusOr<TextSide>(const std::string& folder)>;

// Called with what a shard will be, but for its weights, before they are loaded. An error ends the
// start and comes through as it is.
using ShardCheck = std::function<Status(const ShardInfo& info)>;

// Starts shards in this process. Those of one launcher that serve the same model (folder, type of
// weights, profile) share their weights while one of them lives: start them for one Generation. Any
// thread, one start at a time.
class LocalLauncher final : public ShardLauncher {
 public:
  // Without a factory shards know token ids only. text_side.h has the usual one. `observer` looks
  // on at every step of every shard, on the shard's thread, and outlives them.
  explicit LocalLauncher(TextSideFactory text = {}, models::ForwardObserver* observer = nullptr,
                         ShardCheck check = {})
      : text_(std::move(text)), observer_(observer), check_(std::move(check)) {}

  // Opens the checkpoint, loads it as update 1 (version 0), unless a shard that it shares weights
  // with has done so, and starts the engine. Errors: models::open_model's, the options'
  // (shard_options.h), WeightStore's, the text side's.
  StatusOr<std::unique_ptr<ShardClient>> start(const ShardSpec& spec, EventSink& sink) override;

  // The same, with LocalShard's own members in reach.
  StatusOr<std::unique_ptr<LocalShard>> start_local(const ShardSpec& spec, EventSink& sink);

 private:
  std::mutex mutex_;
  // By what makes weights the same.
  std::map<std::string, std::weak_ptr<SharedWeights>> weights_;  // guarded by mutex_
  TextSideFactory text_;
  models::ForwardObserver* observer_;
  ShardCheck check_;
};

// Loads an opened checkpoint (open_model of shard_options.h) into memory as a shard would and gives
// the digest of every tensor as it would be served. Errors: those of loading, with the folder.
StatusOr<std::vector<ManifestEntry>> served_checksums(const models::Model& model);

}  // namespace rlgen::backends
