#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "contract/sampling_params.h"
#include "generation/rollout_file.h"
#include "generation/rollout_line.h"

namespace rlgen::generation {

// What an output file holds already, so that a resumed run makes the rest and nothing twice.
class FinishedWork {
 public:
  FinishedWork() = default;

  // Reads the whole lines of `file`, opened for kResume. kDataLoss names the line that is no
  // rollout, a rollout that is there twice, or lines of different run seeds.
  static StatusOr<FinishedWork> read(const RolloutFile& file);

  // The seed that the run had; nothing when no line is there.
  std::optional<int64_t> run_seed() const { return run_seed_; }
  int64_t rollouts() const { return rollouts_; }
  int64_t failed() const { return failed_; }

  // True where line `input_line` of the prompts file is there as a failed prompt.
  bool has_failed_prompt(int64_t input_line) const { return failed_lines_.contains(input_line); }

  // The samples of prompt `id` that are still to be made, rising. kFailedPrecondition when what is
  // there was made from another prompt, with other parameters or with other numerics: the two
  // would not be one run. `sampling` as it would be used now, with seed and all.
  StatusOr<std::vector<int32_t>> samples_left(const std::string& id,
                                              const std::vector<int32_t>& prompt_token_ids,
                                              const SamplingParams& sampling,
                                              const std::string& numerics) const;

 private:
  Status add(StoredLine line);

  struct Prompt {
    StoredLine first;
    std::set<int32_t> samples;
  };

  std::map<std::string, Prompt> prompts_;
  std::set<int64_t> failed_lines_;
  std::optional<int64_t> run_seed_;
  int64_t rollouts_ = 0;
  int64_t failed_ = 0;
};

}  // namespace rlgen::generation
