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

// What an output file holds already, so that a resumed run makes the rest and nothing twice. Lines
// with an error are not finished: whatever failed is tried again, and a line whose error did not
// come again is stale.
class FinishedWork {
 public:
  FinishedWork() = default;

  // Reads the whole lines of `file`, opened for kResume. kDataLoss names the line that is no
  // rollout, a good rollout that is there twice, or lines of different run seeds, or of which some
  // have routes, or have them in another way.
  static StatusOr<FinishedWork> read(const RolloutFile& file);

  // The seed that the run had; nothing when no line is there.
  std::optional<int64_t> run_seed() const { return run_seed_; }
  int64_t rollouts() const { return rollouts_; }  // without an error
  // Whether those have routes; nothing when there is none.
  std::optional<bool> have_routes() const { return have_routes_; }
  // How they have them; nothing where they have none.
  const std::optional<StoredRoutes>& routes() const { return routes_; }

  // True where this very line, which has an error, is there and need not be written again; it is
  // not stale then.
  bool confirm_error(const std::string& line);

  // Numbers (from 0, rising) of the lines with an error that nobody confirmed.
  std::vector<int64_t> stale_errors() const;

  // The samples of prompt `id` that are still to be made, rising. kFailedPrecondition when what is
  // there was made from another prompt, with other parameters, other numerics or other given
  // routes: the two would not be one run. `sampling` as it would be used now, with seed and all.
  StatusOr<std::vector<int32_t>> samples_left(const std::string& id,
                                              const std::vector<int32_t>& prompt_token_ids,
                                              const SamplingParams& sampling,
                                              const std::string& numerics,
                                              const GivenRoutes& given_routes = nullptr) const;

 private:
  Status add(StoredLine line);
  Status add_routes(const StoredLine& line);
  void add_error(const std::string& text, int64_t number);

  struct Prompt {
    StoredLine first;
    std::set<int32_t> samples;
  };

  std::map<std::string, Prompt> prompts_;
  std::map<std::string, int64_t> errors_;  // number of the line, by its text; not confirmed
  std::vector<int64_t> repeated_;          // lines that repeat one of those
  std::optional<int64_t> run_seed_;
  std::optional<bool> have_routes_;
  std::optional<StoredRoutes> routes_;
  int64_t rollouts_ = 0;
};

}  // namespace rlgen::generation
