#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/special_tokens.h"

struct RtTokenizer;

namespace rlgen::text {

// How the text of a sequence follows from its tokens.
enum class DecoderKind {
  kBytes,   // the tokens' bytes joined, read as UTF-8 (byte-level vocabularies)
  kPieces,  // the tokens' texts joined; the first token may have another text
  kOther,   // only the tokenizer's decoder knows
};

struct DecoderRule {
  DecoderKind kind = DecoderKind::kOther;
  bool byte_fallback = false;  // kPieces: tokens like <0xE4> are single bytes
  int32_t strip_count = 0;     // kPieces: that many leading strip_char leave the whole text
  char32_t strip_char = U' ';
};

// What encode() refuses. The tokenizer's regular expressions give up on whitespace runs of about a
// million characters, silently; the limit keeps well below.
struct EncodeLimits {
  std::size_t max_text_bytes = std::size_t{16} << 20;
  std::size_t max_whitespace_run = 400'000;  // characters
};

// A Hugging Face tokenizer. Immutable: any number of threads may call it. Token ids outside the
// vocabulary, negative ones too, are undefined ids: they have no bytes and no text, and it is no
// error to decode them.
class Tokenizer {
 public:
  // Reads tokenizer.json and, where they exist, tokenizer_config.json and special_tokens_map.json
  // of `folder`. Truncation and padding of the file are off. Added tokens that only
  // tokenizer_config.json names are added; so are the named special tokens.
  // Errors: kNotFound without tokenizer.json, kInvalidArgument for a file that cannot be read as
  // what it should be, an id that the library would change, or an id of 2^24 or more.
  static StatusOr<std::shared_ptr<const Tokenizer>> load(const std::string& folder,
                                                         EncodeLimits limits = {});
  // From the contents of the files; `config_json` may be empty.
  static StatusOr<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json,
                                                              std::string_view config_json,
                                                              EncodeLimits limits = {});
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of `text`. With `add_special_tokens` the tokenizer's own post-processor adds what it
  // adds (a BOS for instance): right for plain text, wrong for text that a chat template rendered.
  // Bytes that a vocabulary has no token for vanish where the file gives no unknown token.
  // Errors: kInvalidArgument for invalid UTF-8 (with the byte's offset), kResourceExhausted for a
  // text above the limits.
  StatusOr<std::vector<int32_t>> encode(std::string_view text, bool add_special_tokens) const;

  // The text of `ids`, as Hugging Face's tokenizers decodes them, except that an added token of a
  // byte-level vocabulary is always its own text.
  StatusOr<std::string> decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // The bytes that `id` stands for inside a sequence; they need not be UTF-8. Empty for undefined
  // ids. Valid as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;

  // Highest id + 1. Ids below may be undefined.
  int32_t vocab_size() const { return static_cast<int32_t>(flags_.size()); }
  bool is_defined(int32_t id) const;
  // True for ids that skip_special_tokens leaves out.
  bool is_special(int32_t id) const;
  // True for ids that are one byte of a byte-fallback vocabulary.
  bool is_byte(int32_t id) const;
  // All ids with is_special, ascending.
  const std::vector<int32_t>& special_ids() const { return special_ids_; }

  // The id of a token by its name in tokenizer.json.
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // The name of a token; nothing for undefined ids.
  std::optional<std::string> id_to_token(int32_t id) const;

  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  const SpecialTokens& special_tokens() const { return special_tokens_; }
  const DecoderRule& decoder() const { return decoder_; }

 private:
  Tokenizer() = default;
  static StatusOr<std::shared_ptr<const Tokenizer>> make(std::string_view tokenizer_json,
                                                         SpecialTokens special_tokens,
                                                         EncodeLimits limits);
  Status read_table();
  bool has_flag(int32_t id, uint8_t flag) const;

  RtTokenizer* handle_ = nullptr;
  EncodeLimits limits_;
  SpecialTokens special_tokens_;
  DecoderRule decoder_;
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
  std::string bytes_;                // of all tokens, one after the other
  std::vector<std::size_t> starts_;  // [vocab_size + 1]: where each token's bytes begin
  std::vector<uint8_t> flags_;       // [vocab_size]
  std::vector<int32_t> special_ids_;
};

}  // namespace rlgen::text
