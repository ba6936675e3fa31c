#include "cli/generate_stream.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands.h"
#include "cli/say.h"
#include "contract/spec_error.h"

namespace rlgen::cli {
namespace {

using generation::ChatPrompt;
using generation::GenerationRequest;
using generation::Prompt;
using generation::RequestObserver;
using generation::TextPrompt;

struct Piece {
  int32_t sample = 0;
  std::vector<TokenRecord> tokens;
  std::optional<Finish> finish;
};

// News on their way from the shard's thread to the one that prints.
class PieceQueue {
 public:
  void push(Piece piece) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back(std::move(piece));
    }
    filled_.notify_one();
  }
  std::deque<Piece> take() {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, std::chrono::milliseconds(50), [&] { return !pieces_.empty(); });
    return std::exchange(pieces_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Piece> pieces_;
};

Prompt make_prompt(const StreamJob& job) {
  if (!job.chat) return TextPrompt{job.prompt};
  const nlohmann::ordered_json message = {{"role", "user"}, {"content", job.prompt}};
  return ChatPrompt{.messages = nlohmann::ordered_json::array({message}).dump(),
                    .tools = {},
                    .template_kwargs = {}};
}

struct Sample {
  text::TextAssembler text;
  double logprob_sum = 0.0;
  int64_t tokens = 0;
};

class Stream {
 public:
  Stream(Session& session, Interrupts& interrupts) : session_(session), interrupts_(interrupts) {}

  StatusOr<int> run(GenerationRequest request) {
    // All of it came from options.
    RLGEN_RETURN_IF_ERROR(spec_error("--prompt", session_.generation->complete(&request)));
    live_ = request.sampling.n == 1;
    for (int32_t i = 0; i < request.sampling.n; ++i) {
      RLGEN_ASSIGN_OR_RETURN(auto text,
                             session_.text->stream(request.sampling, request.prompt_token_ids));
      samples_.push_back({.text = std::move(text)});
    }
    RequestObserver observer;
    observer.on_tokens = [queue = queue_](int32_t sample, std::span<const TokenRecord> tokens,
                                          const RouteSpan&, const Finish* finish) {
      Piece piece{.sample = sample, .tokens = {tokens.begin(), tokens.end()}};
      if (finish != nullptr) piece.finish = *finish;
      queue->push(std::move(piece));
    };
    const auto start = std::chrono::steady_clock::now();
    seed_ = request.sampling.seed.value_or(0);
    RLGEN_ASSIGN_OR_RETURN(ids_, session_.generation->submit(std::move(request), observer));
    const StatusOr<int> code = pump();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (code.ok() && *code == kExitGood) print_summary();
    return code;
  }

 private:
  StatusOr<int> pump() {
    for (size_t open = samples_.size(); open > 0;) {
      if (const auto signal = interrupts_.poll()) {
        RLGEN_RETURN_IF_ERROR(session_.generation->cancel(ids_));
        fmt::print("\n");
        return Interrupts::exit_code(*signal);
      }
      for (const Piece& piece : queue_->take()) {
        if (piece.finish && piece.finish->reason == FinishReason::kError) {
          return piece.finish->error;
        }
        show(piece);
        if (piece.finish) --open;
      }
      RLGEN_RETURN_IF_ERROR(session_.generation->check_progress());
    }
    return kExitGood;
  }

  void show(const Piece& piece) {
    Sample& sample = samples_[static_cast<size_t>(piece.sample)];
    std::vector<int32_t> ids;
    for (const TokenRecord& record : piece.tokens) {
      ids.push_back(record.token);
      sample.logprob_sum += static_cast<double>(record.logprob);
    }
    sample.tokens += static_cast<int64_t>(ids.size());
    const std::string news = sample.text.take(ids, piece.finish);
    if (live_) {
      fmt::print("{}{}", news, piece.finish ? "\n" : "");
      std::fflush(stdout);
    } else if (piece.finish) {
      fmt::print("--- sample {}\n{}\n", piece.sample, sample.text.text());
    }
    if (piece.finish) finish_ = *piece.finish;
  }

  void print_summary() const {
    int64_t tokens = 0;
    double sum = 0.0;
    for (const Sample& sample : samples_) {
      tokens += sample.tokens;
      sum += sample.logprob_sum;
    }
    say("{} tokens, {}, log-probability {:.3f}, {:.0f} tok/s, seed {}\n", tokens,
        samples_.size() == 1 ? std::string(finish_reason_name(finish_.reason))
                             : fmt::format("{} samples", samples_.size()),
        sum, seconds_ > 0.0 ? static_cast<double>(tokens) / seconds_ : 0.0, seed_);
  }

  Session& session_;
  Interrupts& interrupts_;
  std::shared_ptr<PieceQueue> queue_ = std::make_shared<PieceQueue>();
  std::vector<Sample> samples_;
  std::vector<SequenceId> ids_;
  Finish finish_;  // of the sample that ended last
  int64_t seed_ = 0;
  double seconds_ = 0.0;
  bool live_ = true;
};

}  // namespace

StatusOr<int> stream_prompt(const StreamJob& job, Session& session, Interrupts& interrupts) {
  GenerationRequest request{.id = "prompt"};
  RLGEN_ASSIGN_OR_RETURN(request.prompt_token_ids, session.encode(make_prompt(job)));
  request.sampling = job.sampling;
  return Stream(session, interrupts).run(std::move(request));
}

}  // namespace rlgen::cli
