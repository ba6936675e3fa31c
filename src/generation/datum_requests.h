#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "contract/batch/generation_specs.h"
#include "contract/config/generation_config.h"
#include "generation/generation.h"

namespace rlgen::generation {

// How the rows of a batch are sampled.
struct DatumSampling {
  bool greedy = false;
  std::optional<GenerationSamplingParams> params;  // not set: the configuration's train profile
};

// The request of each row: its prompt without padding, named "row <i>" with tag i, sampled as
// `config` (finalised) and `sampling` say; stop strings are the configured and the row's own,
// max_tokens is max_new_tokens. Errors: those of verify_right_padding; kInvalidArgument for stop
// strings or seeds that are not one a row, an empty stop string, a seed below 0, an id that 32 bits
// cannot hold, sampling that cannot be.
StatusOr<std::vector<GenerationRequest>> datum_requests(const GenerationDatumSpec& data,
                                                        const GenerationConfig& config,
                                                        const DatumSampling& sampling);

// Generates for every row of `data` and gives the batch; blocks. A row whose prompt leaves no room
// in the context gets no token. The first row that fails ends the rest and is the error, with its
// row; so do errors of datum_requests and run_batch, and `interrupted` (kCancelled; may be empty).
StatusOr<GenerationOutputSpec> generate_batch(Generation& generation,
                                              const GenerationDatumSpec& data,
                                              const GenerationConfig& config,
                                              const DatumSampling& sampling,
                                              std::function<bool()> interrupted = {});

}  // namespace rlgen::generation
