#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "bindings/mailbox.h"
#include "bindings/patient_calls.h"
#include "generation/batch_run.h"
#include "generation/generation.h"
#include "generation/prompt_line.h"
#include "generation/text_session.h"

namespace rlgen::python {

// How a request reads in Python: all that is text is JSON or UTF-8.
struct RequestWords {
  std::string id;
  generation::Prompt prompt;
  std::string sampling;  // a JSON object of sampling parameters
  std::optional<std::vector<int32_t>> score_token_ids;
  GivenRoutes routed_experts;
  std::string cache_salt;
  int32_t priority = 0;
};

// A request that was found good, with everything filled in. Of one thread at a time.
class Request {
 public:
  explicit Request(generation::GenerationRequest request) : request_(std::move(request)) {}

  const generation::GenerationRequest& get() const { return request_; }

  // The text that a piece of this request adds to its sample. Empty without a tokenizer.
  StatusOr<std::string> take_text(const generation::TextSession* text, const Piece& piece);

 private:
  generation::GenerationRequest request_;
  std::vector<std::optional<text::TextAssembler>> texts_;  // by sample
};

// How an engine is started.
struct EngineSetup {
  ShardSpec spec;
  int32_t shards = 1;
  std::chrono::milliseconds stall_timeout = generation::GenerationOptions().stall_timeout;
};

// A loaded model with its text side: what Python drives. Knows no Python. Thread-safe.
class Engine {
 public:
  // Shuts down, which ends what still waits for the shards.
  ~Engine() { shutdown().IgnoreError(); }

  // Loads the model and starts its shards. Errors: those of finding the model, of its tokenizer
  // (other than that it has none), and of Generation::start.
  static StatusOr<std::unique_ptr<Engine>> open(EngineSetup setup);

  const ShardInfo& info() const { return generation_->info(); }
  // Null where the checkpoint has no tokenizer.
  const generation::TextSession* text() const { return text_.get(); }
  generation::Generation& generation() { return *generation_; }
  const std::string& folder() const { return folder_; }

  // Encodes and checks a request as Generation::complete does. Text needs a tokenizer
  // (kNotFound).
  StatusOr<Request> make_request(RequestWords words) const;

  // Starts a request whose pieces go to `mailbox` under `ticket`.
  StatusOr<std::vector<SequenceId>> submit(const Request& request, int64_t ticket,
                                           std::shared_ptr<Mailbox> mailbox);

  // Runs all requests to their end. The rollouts of each, by sample, with text unless
  // `detokenize` is false or there is no tokenizer. Errors: those of run_batch, and of a request
  // that was refused.
  StatusOr<std::vector<std::vector<Rollout>>> run(
      const std::vector<const Request*>& requests, bool detokenize,
      std::function<bool()> interrupted,
      std::function<void(const generation::BatchProgress&)> progress);

  // The ids of `text`, with the special tokens that the tokenizer adds if wanted, and back.
  // kNotFound without a tokenizer.
  StatusOr<std::vector<int32_t>> encode(const std::string& text, bool add_special_tokens) const;
  StatusOr<std::string> decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const;

  // The library's messages since the last call; of many, the last.
  std::vector<std::pair<LogLevel, std::string>> take_log();

  // For calls that wait for the shards; they may outlive their caller.
  PatientCalls& waits() { return waits_; }

  // Ends what is in flight with "abort". Repeated calls are safe.
  Status shutdown() { return generation_ ? generation_->shutdown() : absl::OkStatus(); }

 private:
  struct Log {
    std::mutex mutex;
    std::deque<std::pair<LogLevel, std::string>> lines;  // guarded by mutex
  };

  Engine() = default;
  StatusOr<std::vector<int32_t>> ids_of(const generation::Prompt& prompt) const;
  Status no_text() const;

  std::string folder_;
  int64_t max_in_flight_ = 0;
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
  std::shared_ptr<const generation::TextSession> text_;
  std::unique_ptr<generation::Generation> generation_;
  PatientCalls waits_;  // joined before the generation dies
};

}  // namespace rlgen::python
