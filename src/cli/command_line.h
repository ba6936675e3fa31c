#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "cli/options.h"

namespace rlgen::cli {

// Text that was asked for instead of a command: --help, --version.
struct PrintAndLeave {
  std::string text;
};

using Parsed = std::variant<Command, PrintAndLeave>;

// Reads the arguments after the program's name. kInvalidArgument is a mistake in their use: one
// line that names the option and the value.
StatusOr<Parsed> parse_command_line(const std::vector<std::string>& arguments);

// The sampling parameters in force: the defaults of the command line (max_tokens 256), over them
// `model_defaults` where those are wanted, over them the options that were given. kInvalidArgument
// names the option.
StatusOr<SamplingParams> apply_sampling(const SamplingParams& model_defaults,
                                        const std::vector<GivenSampling>& given);

// What generate starts from.
SamplingParams command_line_defaults();

}  // namespace rlgen::cli
