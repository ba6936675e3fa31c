#include "generation/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "contract/sampling_json.h"
#include "generation/json_line.h"
#include "generation/line_reader.h"

namespace rlgen::generation {
namespace {

// "temperature was 1.0 and is 0.7" for the first parameter that differs.
std::string first_difference(const SamplingParams& before, const SamplingParams& now) {
  const auto old_values = sampling_to_json(before);
  const auto new_values = sampling_to_json(now);
  for (const auto& [key, value] : old_values.items()) {
    if (value != new_values.at(key)) {
      return fmt::format("{} was {} and is {}", key, shown(value), shown(new_values.at(key)));
    }
  }
  return {};
}

Status other_run(const std::string& id, const std::string& difference) {
  return absl::FailedPreconditionError(
      fmt::format("cannot resume: for prompt {} of the output file {}; use the options and prompts "
                  "of the first run, or --overwrite",
                  json_quoted(id), difference));
}

}  // namespace

StatusOr<FinishedWork> FinishedWork::read(const RolloutFile& file) {
  FinishedWork work;
  RLGEN_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(file.path()));
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto text, reader.next());
    if (!text) return work;
    const std::string where = fmt::format("{} line {}", file.path(), text->number + 1);
    StatusOr<StoredLine> line = read_stored_line(text->text);
    if (!line.ok()) return annotate(line.status(), where);
    if (line->failed) work.add_error(text->text, text->number);
    RLGEN_RETURN_IF_ERROR(annotate(work.add(*std::move(line)), where));
  }
}

Status FinishedWork::add(StoredLine line) {
  if (run_seed_ && *run_seed_ != line.run_seed) {
    return absl::DataLossError(
        fmt::format("run_seed is {}, earlier lines have {}", line.run_seed, *run_seed_));
  }
  run_seed_ = line.run_seed;
  if (line.failed) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(add_routes(line));
  ++rollouts_;
  const std::string id = line.id;
  const int32_t sample = *line.sample;
  Prompt& prompt = prompts_[id];
  if (prompt.samples.empty()) prompt.first = std::move(line);
  if (prompt.samples.insert(sample).second) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("sample {} of id {} is there twice", sample, json_quoted(id)));
}

Status FinishedWork::add_routes(const StoredLine& line) {
  const bool there = line.routes.has_value();
  if (have_routes_ && *have_routes_ != there) {
    return absl::DataLossError(fmt::format("routed_experts are {}, earlier lines have {}",
                                           there ? "there" : "missing", there ? "none" : "them"));
  }
  have_routes_ = there;
  if (!there) return absl::OkStatus();
  if (!routes_) routes_ = line.routes;
  if (!routes_->layers) routes_->layers = line.routes->layers;
  const bool same_layers = !line.routes->layers || routes_->layers == line.routes->layers;
  if (routes_->format == line.routes->format && same_layers) return absl::OkStatus();
  return absl::DataLossError(
      "routed_experts are in another format or of other layers than in earlier lines");
}

void FinishedWork::add_error(const std::string& text, int64_t number) {
  if (!errors_.emplace(text, number).second) repeated_.push_back(number);
}

bool FinishedWork::confirm_error(const std::string& line) { return errors_.erase(line) > 0; }

std::vector<int64_t> FinishedWork::stale_errors() const {
  std::vector<int64_t> numbers = repeated_;
  for (const auto& [text, number] : errors_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

StatusOr<std::vector<int32_t>> FinishedWork::samples_left(
    const std::string& id, const std::vector<int32_t>& prompt_token_ids,
    const SamplingParams& sampling, const std::string& numerics,
    const GivenRoutes& given_routes) const {
  const auto found = prompts_.find(id);
  if (found != prompts_.end()) {
    const StoredLine& first = found->second.first;
    if (first.prompt_token_ids != prompt_token_ids) {
      return other_run(id, "prompt_token_ids differ");
    }
    if (first.sampling != sampling) {
      return other_run(id, first_difference(first.sampling, sampling));
    }
    if (first.numerics != numerics) {
      return other_run(id, fmt::format("numerics were {} and are {}", first.numerics, numerics));
    }
    const std::string given = given_routes ? given_routes_digest(*given_routes) : "";
    if (first.given_routes != given) return other_run(id, "the given routed_experts differ");
  }
  std::vector<int32_t> left;
  for (int32_t sample = 0; sample < sampling.n; ++sample) {
    if (found == prompts_.end() || !found->second.samples.contains(sample)) left.push_back(sample);
  }
  return left;
}

}  // namespace rlgen::generation
