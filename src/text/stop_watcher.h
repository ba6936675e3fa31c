#pragma once

#include <memory>
#include <optional>
#include <string>

#include "contract/token_watcher.h"
#include "text/stop_strings.h"

namespace rlgen::text {

// Stops a sequence at its stop strings: the seam TokenWatcher on a StopScanner.
class StopWatcher final : public TokenWatcher {
 public:
  explicit StopWatcher(StopScanner scanner, std::shared_ptr<const StopStrings> stops);
  std::optional<std::string> on_token(int32_t token, bool counts) override;

 private:
  StopScanner scanner_;
  std::shared_ptr<const StopStrings> stops_;
  std::string text_;
};

// Makes the watcher of a request from its sampling parameters (stop, skip_special_tokens) and its
// prompt without the trailing output_prefix_len ids, which are output and reach the watcher as
// such. Null without stop strings. Errors: those of StopStrings::make.
TokenWatcherFactory stop_watcher_factory(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace rlgen::text
