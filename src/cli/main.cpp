#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/option_words.h"
#include "cli/say.h"

namespace rlgen::cli {
namespace {

StatusOr<int> run(const Command& command) {
  struct Visitor {
    StatusOr<int> operator()(const GenerateOptions& options) const { return run_generate(options); }
    StatusOr<int> operator()(const ScoreOptions& options) const { return run_score(options); }
    StatusOr<int> operator()(const InspectOptions& options) const { return run_inspect(options); }
    StatusOr<int> operator()(const BenchOptions& options) const { return run_bench(options); }
    StatusOr<int> operator()(const SelftestOptions& options) const { return run_selftest(options); }
    StatusOr<int> operator()(const DiffOptions& options) const { return run_diff(options); }
  };
  return std::visit(Visitor{}, command);
}

int report(const Status& error, int code) {
  say("rlgen: {}\n", message_of(error));
  return code;
}

int run_arguments(const std::vector<std::string>& arguments) {
  const StatusOr<Parsed> parsed = parse_command_line(arguments);
  if (!parsed.ok()) return report(parsed.status(), kExitUsage);
  if (const auto* print = std::get_if<PrintAndLeave>(&*parsed)) {
    fmt::print("{}", print->text);
    return kExitGood;
  }
  const Command& command = std::get<Command>(*parsed);
  const StatusOr<int> code = run(command);
  if (code.ok()) return *code;
  // Of `diff`, 1 says that there is a difference.
  const Status& error = code.status();
  const bool usage = error.code() == absl::StatusCode::kAlreadyExists || is_option_error(error) ||
                     std::holds_alternative<DiffOptions>(command);
  return report(in_option_words(error), usage ? kExitUsage : kExitFailed);
}

// A stream that was closed by the caller would leave its number to the next file that is opened,
// and what is said would land in the rollouts. Writing to standard output stays an error.
void hold_standard_streams() {
  for (const int stream : {0, 1, 2}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY) != stream) return;
  }
}

// Printing throws where standard output cannot be written; some of it only shows at the flush.
int main_of(const std::vector<std::string>& arguments) {
  try {
    const int code = run_arguments(arguments);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return report(file_error("write", "standard output", errno), kExitFailed);
  } catch (const std::system_error& error) {
    return report(file_error("write", "standard output", error.code().value()), kExitFailed);
  }
}

}  // namespace
}  // namespace rlgen::cli

int main(int argc, char** argv) {
  rlgen::cli::hold_standard_streams();
  return rlgen::cli::main_of(std::vector<std::string>(argv + 1, argv + argc));
}
