#include "engine/engine.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "contract/pause_mode.h"

namespace rlgen::engine {
namespace {

Status shut_down() { return absl::UnavailableError("the engine is shut down"); }

}  // namespace

StatusOr<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options, EngineParts parts) {
  std::unique_ptr<Engine> engine(new Engine(parts.sink));
  parts.sink = engine.get();
  RLGEN_ASSIGN_OR_RETURN(engine->core_, EngineCore::create(options, std::move(parts)));
  engine->publish();
  try {
    engine->thread_ = std::jthread([raw = engine.get()] { raw->run(); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system lets this process start no more threads");
  }
  return engine;
}

Engine::~Engine() { shutdown(); }

void Engine::shutdown() {
  std::call_once(stopped_, [&] {
    mailbox_.close();
    if (thread_.joinable()) thread_.join();
  });
}

void Engine::run() {
  while (true) {
    run_commands();
    if (mailbox_.closed()) break;
    if (can_step()) core_->step(gate_.admission());
    settle();
  }
  stop_all();
}

bool Engine::can_step() const {
  if (gate_.frozen() || !core_->weights()) return false;
  const Scheduler& scheduler = core_->scheduler();
  if (gate_.admission() == Admission::kStarted) return scheduler.num_started() > 0;
  return scheduler.num_running() + scheduler.num_waiting() > 0;
}

void Engine::run_commands() {
  for (auto& command : mailbox_.take(/*block=*/!can_step())) command();
  core_->emit_pending();
  settle();
}

// Answers those who wait for the started sequences to finish.
void Engine::settle() {
  if (core_->scheduler().num_started() > 0) return;
  for (PendingFlip& flip : std::exchange(gate_.waiting_flips, {})) {
    core_->set_weights(std::move(flip.weights), KvPolicy::kWait);
    answer(flip.reply, absl::OkStatus());
  }
  for (const Reply& reply : std::exchange(gate_.waiting_drains, {})) {
    gate_.drained = true;
    answer(reply, absl::OkStatus());
  }
  for (const Reply& reply : std::exchange(gate_.waiting_pauses, {})) {
    answer(reply, absl::OkStatus());
  }
}

void Engine::publish() {
  std::lock_guard lock(mutex_);
  metrics_ = core_->metrics();
  steps_ = core_->steps();
  paused_ = gate_.paused.has_value() || gate_.sleeps();
  has_weights_ = core_->weights() != nullptr;
}

void Engine::answer(const Reply& reply, Status status) {
  core_->emit_pending();
  publish();
  reply->set_value(std::move(status));
}

void Engine::stop_all() {
  for (auto& command : mailbox_.take(/*block=*/false)) command();
  core_->abort_all(/*started_only=*/false);
  core_->emit_pending();
  for (const Reply& reply : std::exchange(gate_.waiting_pauses, {})) answer(reply, shut_down());
  for (const Reply& reply : std::exchange(gate_.waiting_drains, {})) answer(reply, shut_down());
  for (const PendingFlip& flip : std::exchange(gate_.waiting_flips, {})) {
    answer(flip.reply, shut_down());
  }
}

void Engine::on_events(EventBatch events) {
  publish();
  {
    std::lock_guard lock(mutex_);
    for (const SequenceEvent& event : events) {
      if (event.finish) in_flight_.erase(event.id);
    }
  }
  sink_->on_events(std::move(events));
}

Status Engine::submit(std::vector<SequenceRequest> requests) {
  std::lock_guard lock(mutex_);
  if (requests.empty()) return mailbox_.closed() ? shut_down() : absl::OkStatus();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (in_flight_.insert(requests[i].id).second) continue;
    for (size_t k = 0; k < i; ++k) in_flight_.erase(requests[k].id);
    return absl::InvalidArgumentError(
        fmt::format("sequence {} is in flight already; ids are unique", requests[i].id));
  }
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(request.id);
  const bool posted = mailbox_.post([this, requests = std::move(requests)]() mutable {
    for (SequenceRequest& request : requests) {
      if (!gate_.sleeps()) {
        core_->submit(std::move(request));
      } else {
        core_->refuse(request.id, absl::FailedPreconditionError(
                                      "the shard is asleep; wake its weights and KV cache first"));
      }
    }
  });
  if (posted) return absl::OkStatus();
  for (const SequenceId id : ids) in_flight_.erase(id);
  return shut_down();
}

Status Engine::cancel(std::span<const SequenceId> ids) {
  const bool posted = mailbox_.post([this, ids = std::vector<SequenceId>(ids.begin(), ids.end())] {
    for (const SequenceId id : ids) core_->cancel(id);
  });
  return posted ? absl::OkStatus() : shut_down();
}

Status Engine::call(std::function<void(Reply)> command) {
  const auto reply = std::make_shared<std::promise<Status>>();
  std::future<Status> answer = reply->get_future();
  if (!mailbox_.post([command = std::move(command), reply] { command(reply); })) return shut_down();
  return answer.get();
}

Status Engine::pause(PauseMode mode) {
  return call([this, mode](Reply reply) { do_pause(mode, std::move(reply)); });
}

Status Engine::resume() {
  return call([this](Reply reply) {
    do_resume();
    answer(reply, absl::OkStatus());
  });
}

Status Engine::set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy) {
  return call([this, weights = std::move(weights), policy](Reply reply) {
    do_set_weights(weights, policy, std::move(reply));
  });
}

Status Engine::clear_kv() {
  return call([this](Reply reply) {
    core_->clear_kv();
    answer(reply, absl::OkStatus());
  });
}

void Engine::do_pause(PauseMode mode, Reply reply) {
  if (gate_.paused && *gate_.paused != mode) {
    answer(reply, absl::FailedPreconditionError(
                      fmt::format("pause({}): paused with {} already; resume first",
                                  pause_mode_name(mode), pause_mode_name(*gate_.paused))));
    return;
  }
  if (mode == PauseMode::kWait) {
    const Status can = gate_.sleeps() ? can_wait("pause(wait)") : absl::OkStatus();
    if (!can.ok()) return answer(reply, can);
  }
  gate_.paused = mode;
  if (mode == PauseMode::kWait) {
    gate_.waiting_pauses.push_back(std::move(reply));
    return;
  }
  freeze(mode);
  answer(reply, absl::OkStatus());
}

void Engine::freeze(PauseMode mode) {
  if (mode == PauseMode::kAbort) core_->abort_all(/*started_only=*/false);
  if (mode == PauseMode::kRetract) core_->retract_all();
  if (core_->scheduler().num_started() == 0) return;
  const Status frozen = absl::FailedPreconditionError(
      "a pause froze the sequences that the update waits for; resume and commit again, or begin an "
      "update with another kv_policy");
  for (const PendingFlip& flip : std::exchange(gate_.waiting_flips, {})) answer(flip.reply, frozen);
  for (const Reply& reply : std::exchange(gate_.waiting_drains, {})) answer(reply, frozen);
}

Status Engine::can_wait(std::string_view who) const {
  if (!gate_.frozen() || core_->scheduler().num_started() == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      gate_.sleeps()
          ? fmt::format("{} cannot end while the shard is asleep with sequences in flight; wake it "
                        "first",
                        who)
          : fmt::format("{} cannot end while a pause freezes running sequences; resume first or "
                        "begin an update with another kv_policy",
                        who));
}

Status Engine::drain() {
  return call([this](Reply reply) { do_drain(std::move(reply)); });
}

void Engine::do_drain(Reply reply) {
  const Status can = can_wait("kv_policy wait");
  if (!can.ok()) return answer(reply, can);
  gate_.waiting_drains.push_back(std::move(reply));
}

Status Engine::release() {
  return call([this](Reply reply) {
    gate_.drained = false;
    answer(reply, absl::OkStatus());
  });
}

Status Engine::sleep(MemoryTags tags) {
  return call([this, tags](Reply reply) { answer(reply, do_sleep(tags)); });
}

Status Engine::do_sleep(MemoryTags tags) {
  if (gate_.waits() || gate_.drained) {
    return absl::FailedPreconditionError(
        "the shard cannot sleep while a pause or an update waits for its running sequences");
  }
  if (tags.kv_cache || tags.weights) core_->clear_kv();
  if (tags.weights) core_->drop_weights();
  gate_.asleep.weights |= tags.weights;
  if (tags.kv_cache) RLGEN_RETURN_IF_ERROR(core_->release_memory());
  gate_.asleep.kv_cache |= tags.kv_cache;
  return absl::OkStatus();
}

Status Engine::wake(MemoryTags tags, std::shared_ptr<const models::WeightSet> weights) {
  return call([this, tags, weights = std::move(weights)](Reply reply) {
    do_wake(tags, weights);
    answer(reply, absl::OkStatus());
  });
}

void Engine::do_wake(MemoryTags tags, std::shared_ptr<const models::WeightSet> weights) {
  if (tags.weights && gate_.asleep.weights) {
    if (weights) core_->set_weights(std::move(weights), KvPolicy::kRecompute);
    gate_.asleep.weights = false;
  }
  if (tags.kv_cache) gate_.asleep.kv_cache = false;
}

void Engine::do_resume() {
  gate_.paused.reset();
  for (const Reply& reply : std::exchange(gate_.waiting_pauses, {})) {
    answer(reply, absl::CancelledError("resume came before the running sequences were done"));
  }
}

void Engine::do_set_weights(std::shared_ptr<const models::WeightSet> weights, KvPolicy policy,
                            Reply reply) {
  const auto& served = core_->weights();
  if (served && served->serial() == weights->serial()) {
    if (served->version() != weights->version()) core_->relabel(std::move(weights));
    answer(reply, absl::OkStatus());
    return;
  }
  if (policy != KvPolicy::kWait) {
    core_->set_weights(std::move(weights), policy);
    answer(reply, absl::OkStatus());
    return;
  }
  const Status can = can_wait("kv_policy wait");
  if (!can.ok()) return answer(reply, can);
  gate_.waiting_flips.push_back({std::move(weights), std::move(reply)});
}

ShardHealth Engine::health() const {
  std::lock_guard lock(mutex_);
  return {.serving = !mailbox_.closed() && has_weights_,
          .paused = paused_,
          .steps = steps_,
          .progress = core_->progress()};
}

ShardMetrics Engine::metrics() const {
  std::lock_guard lock(mutex_);
  return metrics_;
}

}  // namespace rlgen::engine
