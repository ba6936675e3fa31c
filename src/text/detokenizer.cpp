#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

namespace rlgen::text {
namespace {

// An open character has at most 3 bytes, so 4 bytes of the prompt say all about its end.
constexpr std::size_t kBytesOfContext = 4;

std::string utf8_of(char32_t code) {
  std::string out;
  const auto add = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
  return out;
}

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)),
      skip_special_tokens_(skip_special_tokens),
      strip_left_(tokenizer_->decoder().strip_count),
      strip_char_(utf8_of(tokenizer_->decoder().strip_char)) {}

std::size_t Detokenizer::begin_of_context(std::span<const int32_t> prompt) const {
  std::size_t begin = prompt.size();
  for (std::size_t bytes = 0; begin > 0 && bytes < kBytesOfContext; --begin) {
    const int32_t id = prompt[begin - 1];
    if (!is_skipped(id)) bytes += tokenizer_->token_bytes(id).size();
  }
  return begin;
}

bool Detokenizer::is_skipped(int32_t id) const {
  return !tokenizer_->is_defined(id) || (skip_special_tokens_ && tokenizer_->is_special(id));
}

void Detokenizer::follow(std::span<const int32_t> prompt) {
  if (tokenizer_->decoder().kind == DecoderKind::kOther) {
    ids_.assign(prompt.begin(), prompt.end());
    const auto text = tokenizer_->decode(prompt, skip_special_tokens_);
    if (text.ok()) given_ = *text;
    return;
  }
  const bool bytes = tokenizer_->decoder().kind == DecoderKind::kBytes;
  std::string discarded;
  for (int32_t id : prompt.subspan(bytes ? begin_of_context(prompt) : 0)) push(id, discarded);
  run_given_ = run_.size();
}

void Detokenizer::push(int32_t id, std::string& out) {
  if (is_skipped(id)) return;
  switch (tokenizer_->decoder().kind) {
    case DecoderKind::kBytes:
      cutter_.push(tokenizer_->token_bytes(id), out);
      break;
    case DecoderKind::kPieces:
      push_piece(id, out);
      break;
    case DecoderKind::kOther:
      push_other(id, out);
      break;
  }
}

void Detokenizer::push_piece(int32_t id, std::string& out) {
  const bool first = std::exchange(first_, false);
  if (tokenizer_->is_byte(id)) {
    push_byte(static_cast<uint8_t>(tokenizer_->token_bytes(id)[0]), out);
    return;
  }
  end_run(out);
  if (!first || tokenizer_->decoder().strip_count > 0) {
    give(tokenizer_->token_bytes(id), out);
    return;
  }
  const auto alone = tokenizer_->decode(std::span(&id, 1), false);
  give(alone.ok() ? std::string_view(*alone) : tokenizer_->token_bytes(id), out);
}

void Detokenizer::push_byte(uint8_t byte, std::string& out) {
  run_ += static_cast<char>(byte);
  if (!run_broken_) {
    const Utf8State::Step step = run_state_.take(byte);
    run_broken_ = step == Utf8State::Step::kIllFormed || step == Utf8State::Step::kBrokenOff;
  }
  if (!run_broken_) return;
  for (; run_given_ < run_.size(); ++run_given_) give(kReplacement, out);
}

std::string Detokenizer::run_text() const {
  if (run_broken_ || run_given_ == run_.size()) return {};
  if (!run_state_.at_boundary()) {
    std::string text;
    for (std::size_t i = run_given_; i < run_.size(); ++i) text += kReplacement;
    return text;
  }
  std::size_t begin = run_given_;
  while (begin > 0 && is_continuation(run_[begin])) --begin;
  return run_.substr(begin);
}

void Detokenizer::end_run(std::string& out) {
  give(run_text(), out);
  run_.clear();
  run_given_ = 0;
  run_state_ = Utf8State();
  run_broken_ = false;
}

void Detokenizer::push_other(int32_t id, std::string& out) {
  ids_.push_back(id);
  const auto text = tokenizer_->decode(ids_, skip_special_tokens_);
  if (!text.ok() || !text->starts_with(given_) || text->ends_with(kReplacement)) return;
  out.append(*text, given_.size());
  given_ = *text;
}

std::string_view Detokenizer::strip(std::string_view text, int32_t& count) const {
  while (count > 0 && text.starts_with(strip_char_)) {
    text.remove_prefix(strip_char_.size());
    --count;
  }
  if (!text.empty()) count = 0;
  return text;
}

void Detokenizer::give(std::string_view text, std::string& out) { out += strip(text, strip_left_); }

void Detokenizer::finish(std::string& out) {
  switch (tokenizer_->decoder().kind) {
    case DecoderKind::kBytes:
      cutter_.finish(out);
      break;
    case DecoderKind::kPieces:
      end_run(out);
      break;
    case DecoderKind::kOther: {
      const auto text = tokenizer_->decode(ids_, skip_special_tokens_);
      if (text.ok() && text->starts_with(given_)) out.append(*text, given_.size());
      break;
    }
  }
}

std::string Detokenizer::undecided() const {
  if (run_.empty() || run_broken_ || !run_state_.at_boundary()) return {};
  int32_t count = strip_left_;
  return std::string(strip(run_text(), count));
}

}  // namespace rlgen::text
