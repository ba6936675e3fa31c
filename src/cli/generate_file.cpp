#include "cli/generate_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands.h"
#include "cli/option_words.h"
#include "cli/sampling_options.h"
#include "cli/say.h"
#include "contract/sampling_json.h"
#include "generation/seeds.h"

namespace rlgen::cli {

using generation::ExistingFile;
using generation::GenerationRequest;
using generation::LineReader;
using generation::NextRequest;
using generation::PromptLine;

FileRun::FileRun(const GenerateOptions& options, const SamplingParams& defaults, Session& session,
                 Interrupts& interrupts)
    : options_(options), defaults_(defaults), session_(session), interrupts_(interrupts) {}

double FileRun::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Status FileRun::open_files() {
  RLGEN_ASSIGN_OR_RETURN(const auto lines, generation::count_lines(options_.prompts));
  counted_ = lines.has_value();
  total_ = lines.value_or(0) * defaults_.n;
  RLGEN_ASSIGN_OR_RETURN(prompts_, LineReader::open(options_.prompts));
  if (options_.output.empty()) return absl::OkStatus();
  const ExistingFile existing = options_.resume      ? ExistingFile::kResume
                                : options_.overwrite ? ExistingFile::kOverwrite
                                                     : ExistingFile::kRefuse;
  RLGEN_ASSIGN_OR_RETURN(output_, generation::RolloutFile::open(options_.output, existing));
  if (!options_.resume) return absl::OkStatus();
  RLGEN_ASSIGN_OR_RETURN(finished_, generation::FinishedWork::read(*output_));
  say("resuming: {} rollouts are there{}\n", finished_.rollouts(),
      output_->torn_bytes() > 0 ? ", a torn last line was dropped" : "");
  return absl::OkStatus();
}

Status FileRun::choose_seed() {
  const auto earlier = finished_.run_seed();
  if (earlier && options_.seed && *earlier != *options_.seed) {
    return absl::FailedPreconditionError(
        fmt::format("cannot resume: the output file was made with --seed {}, not {}", *earlier,
                    *options_.seed));
  }
  facts_.routes = options_.routes_format;
  facts_.seed = earlier ? *earlier : options_.seed ? *options_.seed : generation::draw_seed();
  facts_.has_text = session_.text != nullptr;
  return absl::OkStatus();
}

// The routes of the lines that are there are such as this run would write.
Status FileRun::check_routes() const {
  const RouteFacts& facts = session_.generation->info().routes;
  const auto made = [](const std::string& how) {
    return absl::FailedPreconditionError("cannot resume: the output file was made " + how);
  };
  const auto there = finished_.have_routes();
  if (there && *there != facts.recorded()) {
    return made(*there ? "with --enable-return-routed-experts"
                       : "without --enable-return-routed-experts");
  }
  const auto& routes = finished_.routes();
  if (!routes) return absl::OkStatus();
  if (routes->format != options_.routes_format) {
    const bool list = routes->format == generation::RouteFormat::kList;
    return made(list ? "with --routed-experts-format list, not base64"
                     : "with --routed-experts-format base64, not list");
  }
  if (!routes->layers || *routes->layers == facts.layers) return absl::OkStatus();
  return made(*routes->layers > facts.layers ? "with --routed-experts-layers all, not moe"
                                             : "with --routed-experts-layers moe, not all");
}

Status FileRun::write(const std::string& line) {
  return output_ ? output_->append(line) : absl::OkStatus();
}

// A line that is there from an earlier run stays where it is.
Status FileRun::write_error(const std::string& line) {
  ++failed_;
  return finished_.confirm_error(line) ? absl::OkStatus() : write(line);
}

// Errors of earlier runs that did not come again, once every prompt was tried.
Status FileRun::drop_stale_errors() {
  const std::vector<int64_t> stale = finished_.stale_errors();
  if (stale.empty()) return absl::OkStatus();
  say("{} of earlier runs dropped\n", counted(static_cast<int64_t>(stale.size()), "error line"));
  return output_->drop_lines(stale);
}

// An error of one prompt, whose line set these keys, in the words of whoever set the rest.
Status FileRun::in_words(const Status& why, std::span<const std::string> own_keys) const {
  constexpr OptionName kContext{"max_model_len", "--max-model-len"};
  const bool given = options_.engine.spec.max_model_len != 0;
  const Status status = in_sampling_words(why, options_.sampling, own_keys);
  return given ? in_option_words(status, std::span(&kContext, 1)) : status;
}

// The same where the line is not at hand: what differs from the run's parameters was its own.
Status FileRun::in_words(const Status& why, const SamplingParams& sampling) const {
  const auto defaults = sampling_to_json(defaults_);
  const auto used = sampling_to_json(sampling);
  std::vector<std::string> own_keys;
  for (const auto& [key, value] : used.items()) {
    if (value != defaults.at(key)) own_keys.push_back(key);
  }
  return in_words(why, own_keys);
}

Status FileRun::fail_prompt(const std::string& id, int64_t line, const Status& why) {
  total_ -= defaults_.n;
  progress_.clear();
  say("{} line {}: {}\n", options_.prompts, line + 1, message_of(why));
  return write_error(
      generation::write_failed_prompt({.id = id, .input_line = line, .error = why}, facts_));
}

StatusOr<std::optional<GenerationRequest>> FileRun::read_prompt(const LineReader::Line& line) {
  const std::optional<GenerationRequest> none;
  auto parsed = generation::parse_prompt_line(line.text, line.number, defaults_);
  if (!parsed.ok()) {
    const std::string id = generation::id_of_bad_line(line.text, line.number);
    const Status why = in_words(parsed.status(), generation::keys_of_line(line.text));
    RLGEN_RETURN_IF_ERROR(fail_prompt(id, line.number, why));
    return none;
  }
  Status status = ids_.add(parsed->id);
  GenerationRequest request{.id = parsed->id, .tag = line.number};
  if (status.ok()) {
    auto ids = session_.encode(parsed->prompt);
    status = ids.status();
    if (ids.ok()) request.prompt_token_ids = *std::move(ids);
  }
  request.sampling = std::move(parsed->sampling);
  request.routed_experts = std::move(parsed->routed_experts);
  if (!request.sampling.seed) {
    request.sampling.seed = generation::line_seed(facts_.seed, request.id);
  }
  if (status.ok()) status = session_.generation->complete(&request);
  if (!status.ok()) {
    const Status why = in_words(status, generation::keys_of_line(line.text));
    RLGEN_RETURN_IF_ERROR(fail_prompt(request.id, line.number, why));
    return none;
  }
  total_ += request.sampling.n - defaults_.n;
  RLGEN_ASSIGN_OR_RETURN(
      request.samples,
      finished_.samples_left(request.id, request.prompt_token_ids, request.sampling,
                             session_.generation->info().numerics.to_string(),
                             request.routed_experts));
  if (request.samples.empty()) return none;
  return std::optional<GenerationRequest>(std::move(request));
}

StatusOr<NextRequest> FileRun::next(bool may_wait) {
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, prompts_->next(interrupts_.input_wait(may_wait)));
    if (!line) return NextRequest{.request = {}, .ended = prompts_->ended()};
    if (generation::is_blank(line->text)) continue;
    if (!counted_) total_ += defaults_.n;
    RLGEN_ASSIGN_OR_RETURN(auto request, read_prompt(*line));
    if (request || interrupts_.poll()) return NextRequest{.request = std::move(request)};
  }
}

Status FileRun::accept(const Rollout& finished) {
  Rollout rollout = finished;
  if (session_.text) RLGEN_RETURN_IF_ERROR(session_.text->fill_text(&rollout));
  const bool failed = rollout.finish.reason == FinishReason::kError;
  if (failed) rollout.finish.error = in_words(rollout.finish.error, rollout.sampling);
  RLGEN_ASSIGN_OR_RETURN(const std::string line, generation::write_rollout_line(rollout, facts_));
  RLGEN_RETURN_IF_ERROR(failed ? write_error(line) : write(line));
  ++made_;
  tokens_ += static_cast<int64_t>(rollout.tokens.size());
  cached_ += rollout.finish.cached_tokens;
  if (failed) {
    progress_.clear();
    say("id {} sample {}: {}\n", rollout.id, rollout.sample, message_of(rollout.finish.error));
  }
  if (options_.table) rows_.push_back(table_row(rollout));
  return absl::OkStatus();
}

void FileRun::show_progress(const generation::BatchProgress&) {
  const ShardMetrics metrics = session_.generation->metrics();
  progress_.show({.done = finished_.rollouts() + made_,
                  .total = total_,
                  .new_done = made_,
                  .tokens = tokens_,
                  .running = metrics.running,
                  .waiting = metrics.waiting,
                  .seconds = seconds()});
}

void FileRun::print_summary(const Status& end) const {
  const double time = seconds();
  say("{}{} rollouts, {} tokens in {:.1f} s, {:.0f} tok/s, run seed {}\n",
      end.ok() ? "" : "stopped: ", made_, tokens_, time,
      time > 0.0 ? static_cast<double>(tokens_) / time : 0.0, facts_.seed);
  if (cached_ > 0) say("{} prompt tokens came from the prefix cache\n", cached_);
  if (finished_.rollouts() > 0) {
    say("{} rollouts were there before\n", finished_.rollouts());
  }
  if (failed_ > 0) say("{} failed\n", counted(failed_, "line"));
}

StatusOr<int> FileRun::run() {
  RLGEN_RETURN_IF_ERROR(open_files());
  RLGEN_RETURN_IF_ERROR(choose_seed());
  RLGEN_RETURN_IF_ERROR(check_routes());
  start_ = std::chrono::steady_clock::now();
  generation::BatchJob job;
  job.next = [this](bool may_wait) { return next(may_wait); };
  job.rejected = [this](const GenerationRequest& request, const Status& why) {
    return fail_prompt(request.id, request.tag, in_words(why, request.sampling));
  };
  job.sink = this;
  job.max_in_flight = 2 * static_cast<int64_t>(options_.engine.spec.max_num_seqs);
  job.interrupted = [this] { return interrupts_.poll().has_value(); };
  job.progress = [this](const generation::BatchProgress& progress) { show_progress(progress); };
  const Status end = generation::run_batch(*session_.generation, job);
  progress_.clear();
  print_summary(end);
  if (const auto signal = interrupts_.poll(); !end.ok() && signal) {
    say("interrupted; --resume goes on\n");
    return Interrupts::exit_code(*signal);
  }
  RLGEN_RETURN_IF_ERROR(end);
  RLGEN_RETURN_IF_ERROR(drop_stale_errors());
  if (options_.table) fmt::print("{}", rollout_table(std::move(rows_), defaults_.logprobs_mode));
  return failed_ > 0 ? kExitFailed : kExitGood;
}

}  // namespace rlgen::cli
