#include <algorithm>
#include <string>
#include <utility>

#include "contract/batch/output_batch.h"
#include "contract/batch/route_columns.h"
#include "contract/rollout_sink.h"
#include "generation/batch_run.h"
#include "generation/datum_requests.h"
#include "generation/seeds.h"

namespace rlgen::generation {
namespace {

// Puts each rollout into its row; one that failed ends the run.
class RowSink final : public RolloutSink {
 public:
  explicit RowSink(size_t rows) : rollouts_(rows) {}

  Status accept(const Rollout& rollout) override {
    if (rollout.finish.reason == FinishReason::kError) {
      return annotate(rollout.finish.error, rollout.id);
    }
    rollouts_[static_cast<size_t>(std::stoll(rollout.id.substr(std::string("row ").size())))] =
        rollout;
    return absl::OkStatus();
  }

  std::vector<Rollout>& rollouts() { return rollouts_; }

 private:
  std::vector<Rollout> rollouts_;
};

// What becomes of a prompt that fills the context, or more.
Rollout without_room(GenerationRequest request, const ShardInfo& info) {
  Rollout rollout{.id = std::move(request.id)};
  rollout.prompt_token_ids = std::move(request.prompt_token_ids);
  rollout.finish = {.reason = FinishReason::kLength, .context_full = true};
  rollout.sampling = std::move(request.sampling);
  if (!rollout.sampling.seed) rollout.sampling.seed = draw_seed();
  rollout.numerics = info.numerics.to_string();
  rollout.routes = empty_route_span(info.routes, 0);
  return rollout;
}

}  // namespace

StatusOr<GenerationOutputSpec> generate_batch(Generation& generation,
                                              const GenerationDatumSpec& data,
                                              const GenerationConfig& config,
                                              const DatumSampling& sampling,
                                              std::function<bool()> interrupted) {
  RLGEN_ASSIGN_OR_RETURN(std::vector<GenerationRequest> requests,
                         datum_requests(data, config, sampling));
  const ShardInfo& info = generation.info();
  RowSink sink(requests.size());
  size_t next = 0;
  BatchJob job;
  job.next = [&](bool) -> StatusOr<NextRequest> {
    while (next < requests.size()) {
      GenerationRequest& request = requests[next++];
      const auto length = static_cast<int64_t>(request.prompt_token_ids.size());
      const int32_t room = clamp_max_new_tokens(config.max_new_tokens, length, info.max_model_len);
      if (room > 0) {
        request.sampling.max_tokens = room;
        return NextRequest{.request = std::move(request)};
      }
      RLGEN_RETURN_IF_ERROR(sink.accept(without_room(std::move(request), info)));
    }
    return NextRequest{.request = std::nullopt, .ended = true};
  };
  job.rejected = [](const GenerationRequest& request, const Status& why) {
    return annotate(why, request.id);
  };
  job.sink = &sink;
  job.max_in_flight = std::max<int64_t>(1, static_cast<int64_t>(requests.size()));
  job.interrupted = std::move(interrupted);
  RLGEN_RETURN_IF_ERROR(run_batch(generation, job));
  auto batch = make_output_batch(sink.rollouts(), {.pad_token_id = *config.pad_token_id,
                                                   .prompt_width = data.input_ids.shape[1],
                                                   .id_type = data.input_ids.dtype,
                                                   .logprobs_mode = config.rlgen_cfg.logprobs_mode,
                                                   .routes = info.routes});
  const std::string fallback = batch.ok() ? route_fallback_warning(*batch) : std::string();
  if (!fallback.empty()) write_log(generation.log(), LogLevel::kWarning, fallback);
  return batch;
}

}  // namespace rlgen::generation
