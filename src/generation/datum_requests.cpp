#include "generation/datum_requests.h"

#include <fmt/format.h>

#include <utility>

#include "contract/batch/right_padding.h"
#include "contract/host_tensor.h"

namespace rlgen::generation {
namespace {

Status check_rows(std::string_view name, size_t found, size_t rows) {
  if (found == 0 || found == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} has {} entries for a batch of {}; give none or one a row", name, found, rows));
}

Status check_extras(const GenerationDatumSpec& data, size_t rows) {
  RLGEN_RETURN_IF_ERROR(check_rows("stop_strings", data.stop_strings.size(), rows));
  RLGEN_RETURN_IF_ERROR(check_rows("seeds", data.seeds.size(), rows));
  for (size_t row = 0; row < data.stop_strings.size(); ++row) {
    for (const std::string& string : data.stop_strings[row]) {
      if (!string.empty()) continue;
      return absl::InvalidArgumentError(
          fmt::format("stop_strings[{}] holds \"\"; a string to look for is not empty", row));
    }
  }
  for (size_t row = 0; row < data.seeds.size(); ++row) {
    if (data.seeds[row] >= 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("seeds[{}] is {}; it must be at least 0", row, data.seeds[row]));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<int32_t>> narrow(std::span<const int64_t> ids, size_t row) {
  std::vector<int32_t> narrowed;
  narrowed.reserve(ids.size());
  for (const int64_t id : ids) {
    if (!std::in_range<int32_t>(id)) {
      return absl::InvalidArgumentError(
          fmt::format("input_ids row {} holds {}, which is no token id", row, id));
    }
    narrowed.push_back(static_cast<int32_t>(id));
  }
  return narrowed;
}

// What all rows share.
SamplingParams common_sampling(const GenerationConfig& config, const DatumSampling& sampling) {
  SamplingParams common;
  apply(sampling.params.value_or(config.train), sampling.greedy, &common);
  common.max_tokens = config.max_new_tokens;
  common.stop_token_ids = config.stop_token_ids.value_or(std::vector<int32_t>());
  common.bad_words = config.bad_words;
  common.ignore_eos = config.ignore_eos;
  common.include_stop_str_in_output = true;
  common.logprobs_mode = config.rlgen_cfg.logprobs_mode;
  return common;
}

}  // namespace

StatusOr<std::vector<GenerationRequest>> datum_requests(const GenerationDatumSpec& data,
                                                        const GenerationConfig& config,
                                                        const DatumSampling& sampling) {
  RLGEN_RETURN_IF_ERROR(verify_right_padding(
      {{"input_ids", data.input_ids}, {"input_lengths", data.input_lengths}}, config.pad_token_id));
  if (sampling.params) RLGEN_RETURN_IF_ERROR(validate(*sampling.params, "sampling"));
  RLGEN_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, read_integers(data.input_ids));
  RLGEN_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, read_integers(data.input_lengths));
  RLGEN_RETURN_IF_ERROR(check_extras(data, lengths.size()));

  const SamplingParams common = common_sampling(config, sampling);
  const auto width = static_cast<size_t>(data.input_ids.shape[1]);
  std::vector<GenerationRequest> requests;
  for (size_t row = 0; row < lengths.size(); ++row) {
    GenerationRequest request{.id = fmt::format("row {}", row)};
    request.tag = static_cast<int64_t>(row);
    const auto prompt = std::span(ids).subspan(row * width, static_cast<size_t>(lengths[row]));
    RLGEN_ASSIGN_OR_RETURN(request.prompt_token_ids, narrow(prompt, row));
    request.sampling = common;
    request.sampling.stop = merge_stop_strings(config.stop_strings, data.stop_strings.empty()
                                                                        ? std::vector<std::string>()
                                                                        : data.stop_strings[row]);
    if (!data.seeds.empty()) request.sampling.seed = data.seeds[row];
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace rlgen::generation
