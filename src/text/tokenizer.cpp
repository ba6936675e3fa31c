#include "text/tokenizer.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/utf8.h"
#include "text/rust_buffer.h"
#include "text/utf8_cutter.h"
#include "text/whitespace.h"

namespace rlgen::text {
namespace {

constexpr uint8_t kDefined = 1;
constexpr uint8_t kSpecial = 2;
constexpr uint8_t kByte = 4;

DecoderRule to_rule(const RtTokenizerInfo& info) {
  DecoderRule rule;
  rule.kind = info.decoder_kind == 0   ? DecoderKind::kBytes
              : info.decoder_kind == 1 ? DecoderKind::kPieces
                                       : DecoderKind::kOther;
  rule.byte_fallback = info.byte_fallback != 0;
  rule.strip_count = static_cast<int32_t>(info.strip_count);
  rule.strip_char = static_cast<char32_t>(info.strip_char);
  return rule;
}

// The content of a file, or nothing where there is none.
StatusOr<std::string> read_optional(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::string();
  return read_file(path.string());
}

Status check_limits(std::string_view text, const EncodeLimits& limits) {
  if (text.size() > limits.max_text_bytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "text of {} bytes is longer than the {} bytes that can be tokenized; shorten it",
        text.size(), limits.max_text_bytes));
  }
  if (const auto offset = first_invalid_utf8(text)) {
    return absl::InvalidArgumentError(
        fmt::format("text is not UTF-8: invalid byte at offset {}", *offset));
  }
  const WhitespaceRun run = longest_whitespace_run(text);
  if (run.characters > limits.max_whitespace_run) {
    return absl::ResourceExhaustedError(fmt::format(
        "text has {} whitespace characters in a row at offset {}, more than the {} that "
        "can be tokenized; shorten it",
        run.characters, run.offset, limits.max_whitespace_run));
  }
  return {};
}

}  // namespace

StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& folder,
                                                           EncodeLimits limits) {
  const std::filesystem::path root(folder);
  std::error_code error;
  if (!std::filesystem::exists(root / "tokenizer.json", error)) {
    return absl::NotFoundError(
        fmt::format("{} is missing; save the tokenizer there in the fast format "
                    "(transformers: AutoTokenizer.from_pretrained(...).save_pretrained(...)), or "
                    "give token ids",
                    (root / "tokenizer.json").string()));
  }
  RLGEN_ASSIGN_OR_RETURN(const std::string json, read_file((root / "tokenizer.json").string()));
  RLGEN_ASSIGN_OR_RETURN(const std::string config, read_optional(root / "tokenizer_config.json"));
  RLGEN_ASSIGN_OR_RETURN(const std::string map, read_optional(root / "special_tokens_map.json"));
  auto special_tokens = read_special_tokens(config, map);
  if (!special_tokens.ok()) return annotate(special_tokens.status(), folder);
  auto made = make(json, *std::move(special_tokens), limits);
  if (!made.ok()) return annotate(made.status(), (root / "tokenizer.json").string());
  return made;
}

StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                                std::string_view config_json,
                                                                EncodeLimits limits) {
  RLGEN_ASSIGN_OR_RETURN(SpecialTokens special_tokens, read_special_tokens(config_json, ""));
  return make(tokenizer_json, std::move(special_tokens), limits);
}

StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::make(std::string_view tokenizer_json,
                                                           SpecialTokens special_tokens,
                                                           EncodeLimits limits) {
  std::shared_ptr<Tokenizer> made(new Tokenizer());
  const std::string& added = special_tokens.added_json;
  RustBuffer error;
  const int32_t code =
      rt_tokenizer_new(rust_bytes(tokenizer_json), tokenizer_json.size(), rust_bytes(added),
                       added.size(), &made->handle_, error.out());
  RLGEN_RETURN_IF_ERROR(rust_status(code, error));
  made->limits_ = limits;
  made->decoder_ = to_rule(rt_tokenizer_info(made->handle_));
  RLGEN_RETURN_IF_ERROR(made->read_table());
  if (special_tokens.bos) made->bos_id_ = made->token_to_id(*special_tokens.bos);
  if (special_tokens.eos) made->eos_id_ = made->token_to_id(*special_tokens.eos);
  made->special_tokens_ = std::move(special_tokens);
  return made;
}

Tokenizer::~Tokenizer() { rt_tokenizer_free(handle_); }

Status Tokenizer::read_table() {
  RustBuffer table;
  RLGEN_RETURN_IF_ERROR(rust_status(rt_tokenizer_table(handle_, table.out()), table));
  std::string_view rest = table.view();
  starts_.push_back(0);
  while (!rest.empty()) {
    uint32_t length = 0;
    std::memcpy(&length, rest.data() + 1, sizeof length);
    flags_.push_back(static_cast<uint8_t>(rest[0]));
    bytes_ += rest.substr(1 + sizeof length, length);
    starts_.push_back(bytes_.size());
    rest.remove_prefix(1 + sizeof length + length);
    if ((flags_.back() & kSpecial) != 0) special_ids_.push_back(vocab_size() - 1);
  }
  return {};
}

StatusOr<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                                 bool add_special_tokens) const {
  RLGEN_RETURN_IF_ERROR(check_limits(text, limits_));
  RustBuffer out;
  const int32_t code =
      rt_tokenizer_encode(handle_, rust_bytes(text), text.size(), add_special_tokens, out.out());
  RLGEN_RETURN_IF_ERROR(rust_status(code, out));
  std::vector<int32_t> ids(out.view().size() / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), out.view().data(), out.view().size());
  return ids;
}

StatusOr<std::string> Tokenizer::decode(std::span<const int32_t> ids,
                                        bool skip_special_tokens) const {
  if (decoder_.kind == DecoderKind::kBytes) {
    std::string bytes;
    for (int32_t id : ids) {
      if (!(skip_special_tokens && is_special(id))) bytes += token_bytes(id);
    }
    return lossy_utf8(bytes);
  }
  const std::vector<uint32_t> unsigned_ids(ids.begin(), ids.end());
  RustBuffer out;
  const int32_t code = rt_tokenizer_decode(handle_, unsigned_ids.data(), unsigned_ids.size(),
                                           skip_special_tokens, out.out());
  RLGEN_RETURN_IF_ERROR(rust_status(code, out));
  return out.text();
}

bool Tokenizer::has_flag(int32_t id, uint8_t flag) const {
  return id >= 0 && id < vocab_size() && (flags_[static_cast<std::size_t>(id)] & flag) != 0;
}

bool Tokenizer::is_defined(int32_t id) const { return has_flag(id, kDefined); }
bool Tokenizer::is_special(int32_t id) const { return has_flag(id, kSpecial); }
bool Tokenizer::is_byte(int32_t id) const { return has_flag(id, kByte); }

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (!is_defined(id)) return {};
  const auto index = static_cast<std::size_t>(id);
  return std::string_view(bytes_).substr(starts_[index], starts_[index + 1] - starts_[index]);
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const int64_t id = rt_tokenizer_token_to_id(handle_, rust_bytes(token), token.size());
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  if (!is_defined(id)) return std::nullopt;
  RustBuffer out;
  if (rt_tokenizer_id_to_token(handle_, static_cast<uint32_t>(id), out.out()) != 0) {
    return std::nullopt;
  }
  return out.text();
}

}  // namespace rlgen::text
