#include <fmt/format.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/option_words.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/session.h"
#include "contract/rollout_sink.h"
#include "generation/batch_run.h"
#include "generation/error_code.h"
#include "generation/json_line.h"
#include "generation/line_reader.h"
#include "generation/rollout_file.h"
#include "generation/rollout_line.h"

namespace rlgen::cli {
namespace {

using generation::GenerationRequest;
using generation::LineReader;
using generation::NextRequest;
using nlohmann::ordered_json;

// A file of token ids into the same lines with log-probabilities, in the order of the input.
class ScoreRun final : private RolloutSink {
 public:
  ScoreRun(const ScoreOptions& options, Session& session, Interrupts& interrupts)
      : options_(options), session_(session), interrupts_(interrupts) {}

  StatusOr<int> run() {
    RLGEN_ASSIGN_OR_RETURN(const auto lines, generation::count_lines(options_.input));
    counted_ = lines.has_value();
    total_ = lines.value_or(0);
    RLGEN_ASSIGN_OR_RETURN(input_, LineReader::open(options_.input));
    RLGEN_ASSIGN_OR_RETURN(
        output_, generation::RolloutFile::open(
                     options_.output, options_.overwrite ? generation::ExistingFile::kOverwrite
                                                         : generation::ExistingFile::kRefuse));
    start_ = std::chrono::steady_clock::now();
    generation::BatchJob job;
    job.next = [this](bool may_wait) { return next(may_wait); };
    job.rejected = [this](const GenerationRequest& request, const Status& why) {
      return fail(request.tag, why);
    };
    job.sink = this;
    job.max_in_flight = 2 * static_cast<int64_t>(options_.engine.spec.max_num_seqs);
    job.interrupted = [this] { return interrupts_.poll().has_value(); };
    job.progress = [this](const generation::BatchProgress&) { show_progress(); };
    const Status end = generation::run_batch(*session_.generation, job);
    progress_.clear();
    print_summary(end);
    if (const auto signal = interrupts_.poll(); !end.ok() && signal) {
      return Interrupts::exit_code(*signal);
    }
    RLGEN_RETURN_IF_ERROR(end);
    return failed_ > 0 ? kExitFailed : kExitGood;
  }

 private:
  // A line that waits for its values, or for its turn.
  struct Pending {
    int64_t number = 0;  // in the input
    ordered_json object;
    std::string text;  // what to write, once known
    bool ready = false;
  };

  StatusOr<NextRequest> next(bool may_wait) {
    for (;;) {
      RLGEN_ASSIGN_OR_RETURN(const auto line, input_->next(interrupts_.input_wait(may_wait)));
      if (!line) return NextRequest{.request = {}, .ended = input_->ended()};
      if (generation::is_blank(line->text)) continue;
      RLGEN_ASSIGN_OR_RETURN(auto request, read_line(*line));
      if (request || interrupts_.poll()) return NextRequest{.request = std::move(request)};
    }
  }

  StatusOr<std::optional<GenerationRequest>> read_line(const LineReader::Line& line) {
    const std::optional<GenerationRequest> none;
    const int64_t tag = next_tag_++;
    if (!counted_) ++total_;
    Pending& pending = pending_[tag];
    pending.number = line.number;
    auto object = generation::parse_json_line(line.text);
    if (!object.ok()) {
      RLGEN_RETURN_IF_ERROR(fail(tag, object.status()));
      return none;
    }
    pending.object = *std::move(object);
    if (const auto error = pending.object.find("error");
        error != pending.object.end() && !error->is_null()) {
      ++copied_;
      RLGEN_RETURN_IF_ERROR(finish(tag, line.text));
      return none;
    }
    auto score = generation::read_score_line(pending.object, options_.replay_routes);
    if (!score.ok()) {
      RLGEN_RETURN_IF_ERROR(fail(tag, score.status()));
      return none;
    }
    // Of the run that made the line; this one may record none.
    if (!session_.generation->info().routes.recorded()) {
      score->sampling.routed_experts_prompt_start = 0;
    }
    if (options_.logprobs_mode) score->sampling.logprobs_mode = *options_.logprobs_mode;
    score->sampling.n = std::max(score->sampling.n, score->sample + 1);
    GenerationRequest request{.id = std::to_string(tag), .tag = tag};
    request.prompt_token_ids = std::move(score->prompt_token_ids);
    request.sampling = std::move(score->sampling);
    request.samples = {score->sample};
    request.score_token_ids = std::move(score->token_ids);
    request.routed_experts = std::move(score->routed_experts);
    return std::optional<GenerationRequest>(std::move(request));
  }

  Status accept(const Rollout& rollout) override {
    const int64_t tag = std::stoll(rollout.id);
    if (rollout.finish.reason == FinishReason::kError) return fail(tag, rollout.finish.error);
    RLGEN_ASSIGN_OR_RETURN(
        std::string text,
        generation::write_scored_line(pending_[tag].object, rollout, options_.routes_format));
    ++scored_;
    tokens_ += static_cast<int64_t>(rollout.tokens.size());
    return finish(tag, std::move(text));
  }

  // An error of one line in the words of whoever set what it names.
  Status in_words(const Status& why) const {
    std::vector<OptionName> names;
    if (options_.logprobs_mode) names.push_back({"logprobs_mode", "--logprobs-mode"});
    if (options_.engine.spec.max_model_len != 0) {
      names.push_back({"max_model_len", "--max-model-len"});
    }
    return in_option_words(why, names);
  }

  // The line as it came, without values and with the error.
  Status fail(int64_t tag, const Status& error) {
    const Status why = in_words(error);
    ++failed_;
    Pending& pending = pending_[tag];
    progress_.clear();
    say("{} line {}: {}\n", options_.input, pending.number + 1, message_of(why));
    ordered_json object = std::move(pending.object);
    if (!object.is_object()) object = {{"input_line", pending.number}};
    object.erase("logprobs");
    object["error"] = {{"code", generation::error_code(why)}, {"message", message_of(why)}};
    return finish(tag, generation::to_json_text(object));
  }

  // Writes what is ready up to the first line that is not.
  Status finish(int64_t tag, std::string text) {
    Pending& pending = pending_[tag];
    pending.text = std::move(text);
    pending.ready = true;
    while (!pending_.empty() && pending_.begin()->second.ready) {
      RLGEN_RETURN_IF_ERROR(output_->append(pending_.begin()->second.text));
      pending_.erase(pending_.begin());
    }
    return absl::OkStatus();
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void show_progress() {
    const ShardMetrics metrics = session_.generation->metrics();
    progress_.show({.done = scored_ + failed_ + copied_,
                    .total = total_,
                    .new_done = scored_,
                    .tokens = tokens_,
                    .running = metrics.running,
                    .waiting = metrics.waiting,
                    .seconds = seconds()});
  }

  void print_summary(const Status& end) const {
    say("{}{} lines scored, {} tokens in {:.1f} s\n", end.ok() ? "" : "stopped: ", scored_, tokens_,
        seconds());
    if (copied_ > 0) say("{} copied as it came, with its error\n", counted(copied_, "line"));
    if (failed_ > 0) say("{} failed\n", counted(failed_, "line"));
  }

  const ScoreOptions& options_;
  Session& session_;
  Interrupts& interrupts_;
  std::optional<LineReader> input_;
  std::unique_ptr<generation::RolloutFile> output_;
  std::map<int64_t, Pending> pending_;  // by order of input
  Progress progress_{stderr};
  int64_t next_tag_ = 0;
  bool counted_ = false;  // the lines of the input were counted before
  int64_t total_ = 0;
  int64_t scored_ = 0;
  int64_t failed_ = 0;
  int64_t copied_ = 0;
  int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

StatusOr<int> run_score(const ScoreOptions& options) {
  RLGEN_RETURN_IF_ERROR(check_readable(options.input));
  RLGEN_RETURN_IF_ERROR(generation::check_not_input("--input", options.input, options.output));
  RLGEN_RETURN_IF_ERROR(check_writable(options.output));
  if (!options.overwrite) RLGEN_RETURN_IF_ERROR(generation::check_new(options.output));
  Interrupts interrupts;
  RLGEN_ASSIGN_OR_RETURN(Session session, open_session(options.engine));
  return ScoreRun(options, session, interrupts).run();
}

}  // namespace rlgen::cli
