#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/interrupts.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/rollout_table.h"
#include "cli/session.h"
#include "contract/rollout_sink.h"
#include "generation/batch_run.h"
#include "generation/line_reader.h"
#include "generation/resume.h"
#include "generation/rollout_file.h"

namespace rlgen::cli {

// `generate --prompts`: a file of prompts into a file of rollouts. A line that is wrong becomes an
// output line with an error; what concerns the run as a whole (a full disk, a dead shard, an output
// file of another run) ends it.
class FileRun final : private RolloutSink {
 public:
  // `defaults` are the sampling parameters of lines that set none.
  FileRun(const GenerateOptions& options, const SamplingParams& defaults, Session& session,
          Interrupts& interrupts);

  // Returns the exit code.
  StatusOr<int> run();

 private:
  Status open_files();
  Status choose_seed();
  Status check_routes() const;
  StatusOr<generation::NextRequest> next(bool may_wait);
  StatusOr<std::optional<generation::GenerationRequest>> read_prompt(
      const generation::LineReader::Line& line);
  Status write_error(const std::string& line);
  Status drop_stale_errors();
  Status fail_prompt(const std::string& id, int64_t line, const Status& why);
  Status in_words(const Status& why, std::span<const std::string> own_keys) const;
  Status in_words(const Status& why, const SamplingParams& sampling) const;
  Status accept(const Rollout& rollout) override;
  Status write(const std::string& line);
  void show_progress(const generation::BatchProgress& progress);
  void print_summary(const Status& end) const;
  double seconds() const;

  const GenerateOptions& options_;
  const SamplingParams& defaults_;
  Session& session_;
  Interrupts& interrupts_;

  std::optional<generation::LineReader> prompts_;
  std::unique_ptr<generation::RolloutFile> output_;  // null without --output
  generation::FinishedWork finished_;
  generation::PromptIds ids_;
  generation::RunFacts facts_;

  Progress progress_{stderr};
  std::vector<TableRow> rows_;
  bool counted_ = false;  // the lines of the prompts file were counted before
  int64_t total_ = 0;     // rollouts that there will be, as far as is known
  int64_t failed_ = 0;    // lines with an error that this run wrote or found written
  int64_t made_ = 0;      // rollouts of this run
  int64_t tokens_ = 0;    // of this run
  int64_t cached_ = 0;    // prompt tokens of this run that came from the prefix cache
  std::chrono::steady_clock::time_point start_;
};

}  // namespace rlgen::cli
