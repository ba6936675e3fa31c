#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "contract/events.h"
#include "contract/sampling_params.h"
#include "text/stop_strings.h"

namespace rlgen::text {

// Puts together the text of one sequence from its events. The text is a function of the ids, the
// parameters and the finish alone, however the ids are cut into events, and what was given is
// never taken back.
//
// What the end of a sequence does to the text:
//   stop string, not included     the text ends before it; the rest of its last token goes too, and
//                                 nothing of it is given while it is only begun
//   stop string, included         the last token stays whole, so the text is that of all ids
//   stop token, not included      the last token gives no text
//   stop token, included          a stop token that the request names shows even where special
//                                 tokens are skipped; an end-of-sequence token follows
//                                 skip_special_tokens
//   anything else                 the text of all ids; an open character becomes U+FFFD
// Token ids are never cut: they stay what was drawn.
//
// Of a continued sequence (output_prefix_len) it gives what the new tokens add: the text of the
// whole output without that of the earlier ids. A stop string may begin in the earlier ids.
//
// Not thread-safe.
class TextAssembler {
 public:
  // Uses stop, include_stop_str_in_output, skip_special_tokens and output_prefix_len of `sampling`.
  // `prompt` is what stands before the new tokens, earlier output included; it may be empty.
  // Errors: those of StopStrings::make.
  static StatusOr<TextAssembler> make(std::shared_ptr<const Tokenizer> tokenizer,
                                      const SamplingParams& sampling,
                                      std::span<const int32_t> prompt);

  // Takes the ids of one event, and with the last one how the sequence ended. The token that
  // stopped a sequence comes in the event with its finish. Returns the text that can be shown now.
  std::string take(std::span<const int32_t> ids, const std::optional<Finish>& finish);

  // Everything given so far; after the finish the whole text.
  std::string_view text() const {
    return std::string_view(visible_).substr(earlier_, given_ - earlier_);
  }

 private:
  TextAssembler(std::shared_ptr<const Tokenizer> tokenizer,
                std::shared_ptr<const StopStrings> stops, const SamplingParams& sampling);
  void continue_after(std::span<const int32_t> earlier);
  void take_stop_token(int32_t id, bool named);
  void cut_at(const std::string& stop);
  std::string give(std::size_t end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const StopStrings> stops_;
  bool include_stop_;
  bool skip_special_tokens_;
  StopScanner scanner_;
  bool taken_any_ = false;
  std::optional<StopMatch> match_;  // of the last token
  std::string visible_;             // of the earlier ids, then of the new ones
  std::size_t earlier_ = 0;         // bytes of the first part
  std::size_t given_ = 0;
};

}  // namespace rlgen::text
