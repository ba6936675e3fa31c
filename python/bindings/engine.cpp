#include "bindings/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "backends/local/local_launcher.h"
#include "backends/local/text_side.h"
#include "base/float_mode.h"
#include "contract/sampling_json.h"
#include "models/model.h"

namespace rlgen::python {
namespace {

constexpr size_t kLogLines = 100;

// Keeps the rollouts of a batch apart by request: the id is the request's place.
class BatchSink final : public RolloutSink {
 public:
  BatchSink(size_t requests, const generation::TextSession* text)
      : rollouts_(requests), text_(text) {}

  Status accept(const Rollout& rollout) override {
    size_t place = 0;
    std::from_chars(rollout.id.data(), rollout.id.data() + rollout.id.size(), place);
    Rollout copy = rollout;
    if (text_ != nullptr && copy.finish.reason != FinishReason::kError) {
      RLGEN_RETURN_IF_ERROR(text_->fill_text(&copy));
    }
    rollouts_[place].push_back(std::move(copy));
    return absl::OkStatus();
  }

  std::vector<std::vector<Rollout>> take() {
    for (auto& samples : rollouts_) {
      std::sort(samples.begin(), samples.end(),
                [](const Rollout& a, const Rollout& b) { return a.sample < b.sample; });
    }
    return std::move(rollouts_);
  }

 private:
  std::vector<std::vector<Rollout>> rollouts_;
  const generation::TextSession* text_;
};

}  // namespace

StatusOr<std::string> Request::take_text(const generation::TextSession* text, const Piece& piece) {
  if (text == nullptr) return std::string();
  texts_.resize(std::max(texts_.size(), size_t(piece.sample) + 1));
  auto& assembler = texts_[size_t(piece.sample)];
  if (!assembler) {
    RLGEN_ASSIGN_OR_RETURN(assembler, text->stream(request_.sampling, request_.prompt_token_ids));
  }
  std::vector<int32_t> ids;
  for (const TokenRecord& record : piece.tokens) ids.push_back(record.token);
  std::optional<Finish> finish;
  if (piece.rollout) finish = piece.rollout->finish;
  return assembler->take(ids, finish);
}

StatusOr<std::unique_ptr<Engine>> Engine::open(EngineSetup setup) {
  std::unique_ptr<Engine> engine(new Engine());
  ShardSpec& spec = setup.spec;
  if (setup.shards < 1) {
    return absl::InvalidArgumentError(
        fmt::format("data_parallel_size is {}; it must be at least 1", setup.shards));
  }
  RLGEN_ASSIGN_OR_RETURN(engine->folder_, models::resolve_model_path(spec.model));
  RLGEN_ASSIGN_OR_RETURN(engine->text_, generation::TextSession::open_if_there(engine->folder_));
  generation::GenerationOptions options;
  options.stall_timeout = setup.stall_timeout;
  options.log = [log = engine->log_](LogLevel level, std::string_view message) {
    const std::lock_guard lock(log->mutex);
    log->lines.emplace_back(level, message);
    if (log->lines.size() > kLogLines) log->lines.pop_front();
  };
  options.bad_words = generation::TextSession::bad_words(engine->text_);
  spec.model = engine->folder_;
  // Enough that every step finds its rows, few enough that memory stays bounded.
  engine->max_in_flight_ = int64_t{2} * spec.max_num_seqs * setup.shards;
  backends::LocalLauncher launcher(backends::open_text_side);
  RLGEN_ASSIGN_OR_RETURN(
      engine->generation_,
      generation::Generation::start(launcher, std::vector<ShardSpec>(size_t(setup.shards), spec),
                                    std::move(options)));
  return engine;
}

Status Engine::no_text() const {
  return absl::NotFoundError(
      fmt::format("{} has no tokenizer.json; give token ids instead of text", folder_));
}

StatusOr<std::vector<int32_t>> Engine::ids_of(const generation::Prompt& prompt) const {
  if (text_) return text_->encode(prompt);
  if (const auto* ids = std::get_if<generation::TokenPrompt>(&prompt)) return *ids;
  return no_text();
}

StatusOr<Request> Engine::make_request(RequestWords words) const {
  const ScopedFloatMode mode(FloatMode::kGradual);
  generation::GenerationRequest request{.id = std::move(words.id)};
  const auto sampling = nlohmann::json::parse(words.sampling, nullptr, false);
  if (sampling.is_discarded()) return absl::InvalidArgumentError("the sampling is no JSON");
  RLGEN_RETURN_IF_ERROR(merge_sampling_json(sampling, "", &request.sampling));
  RLGEN_ASSIGN_OR_RETURN(request.prompt_token_ids, ids_of(words.prompt));
  request.score_token_ids = std::move(words.score_token_ids);
  request.routed_experts = std::move(words.routed_experts);
  request.cache_salt = std::move(words.cache_salt);
  request.priority = words.priority;
  RLGEN_RETURN_IF_ERROR(generation_->complete(&request));
  return Request(std::move(request));
}

StatusOr<std::vector<SequenceId>> Engine::submit(const Request& request, int64_t ticket,
                                                 std::shared_ptr<Mailbox> mailbox) {
  return generation_->submit(request.get(), post_to(std::move(mailbox), ticket));
}

StatusOr<std::vector<std::vector<Rollout>>> Engine::run(
    const std::vector<const Request*>& requests, bool detokenize, std::function<bool()> interrupted,
    std::function<void(const generation::BatchProgress&)> progress) {
  BatchSink sink(requests.size(), detokenize ? text_.get() : nullptr);
  generation::BatchJob job;
  size_t taken = 0;
  job.next = [&](bool) -> StatusOr<generation::NextRequest> {
    if (taken == requests.size()) return generation::NextRequest{.request = {}, .ended = true};
    generation::GenerationRequest request = requests[taken]->get();
    request.id = std::to_string(taken++);
    return generation::NextRequest{.request = std::move(request)};
  };
  job.rejected = [](const generation::GenerationRequest& request, const Status& why) {
    return annotate(why, "request " + request.id);
  };
  job.sink = &sink;
  job.max_in_flight = max_in_flight_;
  job.interrupted = std::move(interrupted);
  job.progress = std::move(progress);
  RLGEN_RETURN_IF_ERROR(generation::run_batch(*generation_, job));
  return sink.take();
}

StatusOr<std::vector<int32_t>> Engine::encode(const std::string& text,
                                              bool add_special_tokens) const {
  if (!text_) return no_text();
  return text_->tokenizer().encode(text, add_special_tokens);
}

StatusOr<std::string> Engine::decode(const std::vector<int32_t>& ids,
                                     bool skip_special_tokens) const {
  if (!text_) return no_text();
  return text_->tokenizer().decode(ids, skip_special_tokens);
}

std::vector<std::pair<LogLevel, std::string>> Engine::take_log() {
  const std::lock_guard lock(log_->mutex);
  const auto lines = std::exchange(log_->lines, {});
  return {lines.begin(), lines.end()};
}

}  // namespace rlgen::python
