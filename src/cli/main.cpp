#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace rlgen::cli {
namespace {

StatusOr<int> run(const Command& command) {
  struct Visitor {
    StatusOr<int> operator()(const GenerateOptions& options) const { return run_generate(options); }
    StatusOr<int> operator()(const ScoreOptions& options) const { return run_score(options); }
    StatusOr<int> operator()(const InspectOptions& options) const { return run_inspect(options); }
    StatusOr<int> operator()(const BenchOptions& options) const { return run_bench(options); }
    StatusOr<int> operator()(const SelftestOptions& options) const { return run_selftest(options); }
  };
  return std::visit(Visitor{}, command);
}

int report(const Status& error, int code) {
  fmt::print(stderr, "rlgen: {}\n", message_of(error));
  return code;
}

int main_of(const std::vector<std::string>& arguments) {
  const StatusOr<Parsed> parsed = parse_command_line(arguments);
  if (!parsed.ok()) return report(parsed.status(), kExitUsage);
  if (const auto* print = std::get_if<PrintAndLeave>(&*parsed)) {
    fmt::print("{}", print->text);
    return kExitGood;
  }
  const StatusOr<int> code = run(std::get<Command>(*parsed));
  if (code.ok()) return *code;
  const bool usage = code.status().code() == absl::StatusCode::kAlreadyExists;
  return report(code.status(), usage ? kExitUsage : kExitFailed);
}

}  // namespace
}  // namespace rlgen::cli

int main(int argc, char** argv) {
  return rlgen::cli::main_of(std::vector<std::string>(argv + 1, argv + argc));
}
