#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/utf8_cutter.h"

namespace rlgen::text {

// Turns the tokens of one sequence into text, token by token. What it gives never ends inside a
// character and is never taken back; joined, and with what finish() gives, it equals
// Tokenizer::decode of all the ids. One object per sequence, one thread at a time; copyable.
//
// Text can be decided later than its token: a character whose bytes are not all there waits, and so
// does a run of byte-fallback tokens until it ends, because a later byte of the run can turn the
// whole run into U+FFFD. undecided() is what such a run says so far.
//
// The text offset at which a token ends is the length of everything given up to its push().
class Detokenizer {
 public:
  // `skip_special_tokens`: special tokens give no text.
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);

  // Makes the output a continuation of `prompt`: a character that the prompt leaves open is
  // completed, and a leading space is kept where the decoder drops that of a first token. Gives no
  // text. Before the first push().
  void follow(std::span<const int32_t> prompt);

  // Appends what `id` decides to `out`.
  void push(int32_t id, std::string& out);

  // Appends the rest: what is open becomes U+FFFD, as in Tokenizer::decode. The object is then
  // done.
  void finish(std::string& out);

  // Complete characters that were pushed and are not given yet; they stand if no byte follows.
  std::string undecided() const;

 private:
  bool is_skipped(int32_t id) const;
  std::size_t begin_of_context(std::span<const int32_t> prompt) const;
  void push_piece(int32_t id, std::string& out);
  void push_byte(uint8_t byte, std::string& out);
  void end_run(std::string& out);
  std::string run_text() const;
  void push_other(int32_t id, std::string& out);
  void give(std::string_view text, std::string& out);
  std::string_view strip(std::string_view text, int32_t& count) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;

  Utf8Cutter cutter_;  // DecoderKind::kBytes

  // DecoderKind::kPieces
  bool first_ = true;          // no token gave a piece yet
  int32_t strip_left_;         // how many leading characters may still be stripped
  std::string strip_char_;     // in UTF-8
  std::string run_;            // bytes of the open run of byte tokens
  std::size_t run_given_ = 0;  // how many of them belong to the prompt or are given
  Utf8State run_state_;
  bool run_broken_ = false;  // a byte of the run fits nowhere: each byte is U+FFFD

  // DecoderKind::kOther: decodes everything anew for each token
  std::vector<int32_t> ids_;
  std::string given_;
};

}  // namespace rlgen::text
