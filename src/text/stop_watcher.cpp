#include "text/stop_watcher.h"

#include <algorithm>
#include <span>
#include <utility>

namespace rlgen::text {

StopWatcher::StopWatcher(StopScanner scanner, std::shared_ptr<const StopStrings> stops)
    : scanner_(std::move(scanner)), stops_(std::move(stops)) {}

std::optional<std::string> StopWatcher::on_token(int32_t token, bool counts) {
  text_.clear();
  const auto match = scanner_.push(token, counts, text_);
  if (!match) return std::nullopt;
  return stops_->text(match->index);
}

TokenWatcherFactory stop_watcher_factory(std::shared_ptr<const Tokenizer> tokenizer) {
  return [tokenizer](const SequenceRequest& request) -> StatusOr<std::unique_ptr<TokenWatcher>> {
    if (request.sampling.stop.empty()) return nullptr;
    RLGEN_ASSIGN_OR_RETURN(auto stops, StopStrings::make(request.sampling.stop, *tokenizer));
    StopScanner scanner(tokenizer, stops, request.sampling.skip_special_tokens);
    const auto size = static_cast<int32_t>(request.prompt_token_ids.size());
    const int32_t output = std::clamp(request.sampling.output_prefix_len, 0, size);
    scanner.follow(
        std::span(request.prompt_token_ids).first(static_cast<std::size_t>(size - output)));
    return std::make_unique<StopWatcher>(std::move(scanner), std::move(stops));
  };
}

}  // namespace rlgen::text
