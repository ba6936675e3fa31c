#include "generation/batch_run.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rlgen::generation {
namespace {

struct Finished {
  int64_t ticket = 0;  // of its request
  Rollout rollout;
};

// Finished rollouts on their way from the shards' threads to the caller's. Shared with the
// observers, which may outlive the run.
class FinishedQueue {
 public:
  void push(Finished finished) {
    {
      const std::lock_guard lock(mutex_);
      finished_.push_back(std::move(finished));
    }
    filled_.notify_one();
  }

  std::deque<Finished> take(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, patience, [&] { return !finished_.empty(); });
    return std::exchange(finished_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Finished> finished_;
};

class Run {
 public:
  Run(Generation& generation, const BatchJob& job) : generation_(generation), job_(job) {}

  Status operator()() {
    const Status status = work();
    std::vector<SequenceId> left;
    for (const auto& [ticket, flight] : flights_) {
      left.insert(left.end(), flight.ids.begin(), flight.ids.end());
    }
    if (!left.empty()) generation_.cancel(left).IgnoreError();
    return status;
  }

 private:
  struct Flight {
    std::vector<SequenceId> ids;
    int64_t unfinished = 0;
  };

  Status work() {
    while (!exhausted_ || progress_.in_flight > 0) {
      if (interrupted()) {
        RLGEN_RETURN_IF_ERROR(drain(std::chrono::milliseconds(0)));
        return absl::CancelledError("interrupted");
      }
      RLGEN_RETURN_IF_ERROR(fill());
      if (progress_.in_flight > 0) RLGEN_RETURN_IF_ERROR(drain(job_.tick));
      RLGEN_RETURN_IF_ERROR(generation_.check_progress());
      if (job_.progress) job_.progress(progress_);
    }
    return absl::OkStatus();
  }

  bool interrupted() const { return job_.interrupted && job_.interrupted(); }

  Status fill() {
    while (!exhausted_ && progress_.in_flight < job_.max_in_flight && !interrupted()) {
      RLGEN_ASSIGN_OR_RETURN(NextRequest next, job_.next(progress_.in_flight == 0));
      if (!next.request) {
        exhausted_ = next.ended;
        break;
      }
      RLGEN_RETURN_IF_ERROR(submit(*std::move(next.request)));
    }
    return absl::OkStatus();
  }

  Status submit(GenerationRequest request) {
    const int64_t ticket = next_ticket_++;
    RequestObserver observer;
    observer.on_rollout = [queue = queue_, ticket](Rollout rollout) {
      queue->push({ticket, std::move(rollout)});
    };
    const auto ids = generation_.submit(request, std::move(observer));
    if (ids.ok()) {
      const auto count = static_cast<int64_t>(ids->size());
      progress_.in_flight += count;
      if (count > 0) flights_[ticket] = {.ids = *ids, .unfinished = count};
      return absl::OkStatus();
    }
    if (ids.status().code() == absl::StatusCode::kUnavailable) return ids.status();
    return job_.rejected(request, ids.status());
  }

  Status drain(std::chrono::milliseconds patience) {
    for (Finished& finished : queue_->take(patience)) {
      const auto flight = flights_.find(finished.ticket);
      if (--flight->second.unfinished == 0) flights_.erase(flight);
      progress_.in_flight -= 1;
      progress_.rollouts += 1;
      progress_.tokens += static_cast<int64_t>(finished.rollout.tokens.size());
      RLGEN_RETURN_IF_ERROR(job_.sink->accept(finished.rollout));
    }
    return absl::OkStatus();
  }

  Generation& generation_;
  const BatchJob& job_;
  std::shared_ptr<FinishedQueue> queue_ = std::make_shared<FinishedQueue>();
  std::map<int64_t, Flight> flights_;  // by ticket, those with unfinished samples
  int64_t next_ticket_ = 0;
  BatchProgress progress_;
  bool exhausted_ = false;
};

}  // namespace

Status run_batch(Generation& generation, const BatchJob& job) { return Run(generation, job)(); }

}  // namespace rlgen::generation
