#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace rlgen::text {

// The stop strings of a request, prepared for the search. Immutable, shared by its samples.
class StopStrings {
 public:
  // Errors: kInvalidArgument for an empty string or invalid UTF-8, as "stop[1]: ...".
  static StatusOr<std::shared_ptr<const StopStrings>> make(std::vector<std::string> strings,
                                                           const Tokenizer& tokenizer);

  std::size_t size() const { return entries_.size(); }
  const std::string& text(std::size_t index) const { return entries_[index].text; }
  // True where the string contains the text of a special token: it is searched in the text with
  // special tokens even where the visible text is without.
  bool has_special(std::size_t index) const { return entries_[index].has_special; }
  bool any_special() const { return any_special_; }
  std::size_t longest() const { return longest_; }

  // One step of the search for string `index`: how many of its leading bytes are the end of the
  // text once `byte` follows, when it was `matched` before (Knuth, Morris, Pratt).
  std::size_t advance(std::size_t index, std::size_t matched, char byte) const;
  // How many leading bytes of string `index` may still grow into a match; `matched` as above.
  std::size_t open(std::size_t index, std::size_t matched) const;

 private:
  struct Entry {
    std::string text;
    std::vector<std::size_t> border;  // [size + 1]: longest proper border of each prefix
    bool has_special = false;
  };
  std::vector<Entry> entries_;
  bool any_special_ = false;
  std::size_t longest_ = 0;
};

struct StopMatch {
  std::size_t index = 0;  // which stop string
  std::size_t begin = 0;  // where it begins, in bytes of the visible text
};

// Detokenizes one sequence and searches the stop strings across the borders of its tokens. The
// answer does not depend on where the borders are: the string that is complete first counts, of
// several that end together the longest. Not thread-safe; copyable.
class StopScanner {
 public:
  StopScanner(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const StopStrings> stops,
              bool skip_special_tokens);

  // See Detokenizer::follow. A stop string never begins inside the prompt.
  void follow(std::span<const int32_t> prompt);

  // Takes the next token and appends the visible text that it decides to `visible`. A stop string
  // that becomes complete with this token is returned when `counts`, and otherwise never counts. A
  // match may reach into text that is not decided yet (Detokenizer::undecided).
  std::optional<StopMatch> push(int32_t id, bool counts, std::string& visible);

  // Appends the rest of the visible text.
  void finish(std::string& visible);

  // How much of the visible text given so far no later match can cut off.
  std::size_t settled() const;

 private:
  // A text and how far each of its stop strings is matched at its end.
  struct Stream {
    Detokenizer detokenizer;
    std::vector<std::size_t> indices;  // of the stop strings searched here
    std::vector<std::size_t> matched;  // for each of them
    std::size_t length = 0;            // bytes decided
    std::size_t checked = 0;           // bytes searched, undecided ones included
  };
  struct Found {
    std::size_t index = 0;
    std::size_t begin = 0;  // in the stream's text
  };

  std::optional<Found> search(Stream& stream, std::string_view text, std::size_t offset,
                              bool counts) const;
  std::optional<Found> feed(Stream& stream, int32_t id, bool counts, std::string& out) const;
  std::size_t visible_offset(std::size_t full_offset) const;
  void note_border();

  std::shared_ptr<const StopStrings> stops_;
  Stream visible_;
  // The text with special tokens, where the visible one is without and a stop string needs it.
  std::optional<Stream> full_;
  std::deque<std::pair<std::size_t, std::size_t>>
      borders_;  // (full, visible) lengths at tokens' ends
};

}  // namespace rlgen::text
