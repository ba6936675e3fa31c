#include "text/text_assembler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "text/utf8_cutter.h"

namespace rlgen::text {

StatusOr<TextAssembler> TextAssembler::make(std::shared_ptr<const Tokenizer> tokenizer,
                                            const SamplingParams& sampling,
                                            std::span<const int32_t> prompt) {
  RLGEN_ASSIGN_OR_RETURN(auto stops, StopStrings::make(sampling.stop, *tokenizer));
  TextAssembler made(std::move(tokenizer), std::move(stops), sampling);
  const auto earlier =
      std::min(prompt.size(), static_cast<std::size_t>(sampling.output_prefix_len));
  made.scanner_.follow(prompt.first(prompt.size() - earlier));
  made.continue_after(prompt.last(earlier));
  return made;
}

void TextAssembler::continue_after(std::span<const int32_t> earlier) {
  for (const int32_t id : earlier) scanner_.push(id, /*counts=*/true, visible_);
  earlier_ = given_ = visible_.size();
}

TextAssembler::TextAssembler(std::shared_ptr<const Tokenizer> tokenizer,
                             std::shared_ptr<const StopStrings> stops,
                             const SamplingParams& sampling)
    : tokenizer_(std::move(tokenizer)),
      stops_(std::move(stops)),
      include_stop_(sampling.include_stop_str_in_output),
      skip_special_tokens_(sampling.skip_special_tokens),
      scanner_(tokenizer_, stops_, skip_special_tokens_) {}

std::string TextAssembler::take(std::span<const int32_t> ids, const std::optional<Finish>& finish) {
  taken_any_ = taken_any_ || !ids.empty();
  if (!taken_any_) return {};  // an open character belongs to the prompt
  const bool stopped = finish && finish->reason == FinishReason::kStop;
  const bool by_token = stopped && !std::holds_alternative<std::string>(finish->stop_reason);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    match_.reset();
    if (by_token && i + 1 == ids.size()) {
      take_stop_token(ids[i], std::holds_alternative<int32_t>(finish->stop_reason));
    } else {
      match_ = scanner_.push(ids[i], /*counts=*/true, visible_);
    }
  }
  if (!finish) {
    const bool hold = !include_stop_ || stops_->any_special();
    return give(hold ? scanner_.settled() : visible_.size());
  }
  scanner_.finish(visible_);
  if (stopped && !by_token) cut_at(std::get<std::string>(finish->stop_reason));
  return give(visible_.size());
}

void TextAssembler::take_stop_token(int32_t id, bool named) {
  if (!include_stop_) return;
  if (named && skip_special_tokens_ && tokenizer_->is_special(id)) {
    scanner_.finish(visible_);
    visible_ += lossy_utf8(tokenizer_->token_bytes(id));
    return;
  }
  scanner_.push(id, /*counts=*/false, visible_);
}

void TextAssembler::cut_at(const std::string& stop) {
  const bool ours = match_ && stops_->text(match_->index) == stop;
  std::size_t begin = ours ? match_->begin : visible_.rfind(stop);
  if (begin == std::string::npos) return;
  const std::size_t kept = std::max(begin, given_);
  if (!include_stop_) {
    visible_.resize(std::min(kept, visible_.size()));
  } else if (ours && skip_special_tokens_ && stops_->has_special(match_->index)) {
    visible_.resize(std::min(kept, visible_.size()));
    visible_ += stop.substr(std::min(kept - begin, stop.size()));
  }
}

std::string TextAssembler::give(std::size_t end) {
  if (end <= given_) return {};
  std::string piece = visible_.substr(given_, end - given_);
  given_ = end;
  return piece;
}

}  // namespace rlgen::text
