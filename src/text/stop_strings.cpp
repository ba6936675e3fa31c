#include "text/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace rlgen::text {
namespace {

bool contains_special(std::string_view text, const Tokenizer& tokenizer) {
  return std::ranges::any_of(tokenizer.special_ids(), [&](int32_t id) {
    const std::string_view special = tokenizer.token_bytes(id);
    return !special.empty() && text.find(special) != std::string_view::npos;
  });
}

std::vector<std::size_t> borders_of(std::string_view text) {
  std::vector<std::size_t> border(text.size() + 1, 0);
  std::size_t length = 0;
  for (std::size_t end = 1; end < text.size(); ++end) {
    while (length > 0 && text[length] != text[end]) length = border[length];
    if (text[length] == text[end]) ++length;
    border[end + 1] = length;
  }
  return border;
}

}  // namespace

StatusOr<std::shared_ptr<const StopStrings>> StopStrings::make(std::vector<std::string> strings,
                                                               const Tokenizer& tokenizer) {
  auto made = std::make_shared<StopStrings>();
  for (std::size_t i = 0; i < strings.size(); ++i) {
    std::string& text = strings[i];
    if (text.empty()) {
      return absl::InvalidArgumentError(fmt::format("stop[{}]: a stop string cannot be empty", i));
    }
    if (const auto offset = first_invalid_utf8(text)) {
      return absl::InvalidArgumentError(
          fmt::format("stop[{}]: not UTF-8: invalid byte at offset {}", i, *offset));
    }
    const bool special = contains_special(text, tokenizer);
    made->any_special_ |= special;
    made->longest_ = std::max(made->longest_, text.size());
    std::vector<std::size_t> border = borders_of(text);
    made->entries_.push_back({std::move(text), std::move(border), special});
  }
  return made;
}

std::size_t StopStrings::advance(std::size_t index, std::size_t matched, char byte) const {
  const Entry& entry = entries_[index];
  if (matched == entry.text.size()) matched = entry.border[matched];
  while (matched > 0 && entry.text[matched] != byte) matched = entry.border[matched];
  return entry.text[matched] == byte ? matched + 1 : 0;
}

std::size_t StopStrings::open(std::size_t index, std::size_t matched) const {
  const Entry& entry = entries_[index];
  return matched == entry.text.size() ? entry.border[matched] : matched;
}

StopScanner::StopScanner(std::shared_ptr<const Tokenizer> tokenizer,
                         std::shared_ptr<const StopStrings> stops, bool skip_special_tokens)
    : stops_(std::move(stops)),
      visible_{.detokenizer = Detokenizer(tokenizer, skip_special_tokens)} {
  if (skip_special_tokens && stops_->any_special()) {
    full_ = Stream{.detokenizer = Detokenizer(tokenizer, false)};
    borders_.emplace_back(0, 0);
  }
  for (std::size_t i = 0; i < stops_->size(); ++i) {
    Stream& stream = full_ && stops_->has_special(i) ? *full_ : visible_;
    stream.indices.push_back(i);
    stream.matched.push_back(0);
  }
}

void StopScanner::follow(std::span<const int32_t> prompt) {
  visible_.detokenizer.follow(prompt);
  if (full_) full_->detokenizer.follow(prompt);
}

std::optional<StopScanner::Found> StopScanner::search(Stream& stream, std::string_view text,
                                                      std::size_t offset, bool counts) const {
  std::optional<Found> found;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = offset + at + 1;
    const bool decided = found.has_value();
    for (std::size_t k = 0; k < stream.indices.size(); ++k) {
      const std::size_t index = stream.indices[k];
      const std::size_t size = stops_->text(index).size();
      stream.matched[k] = stops_->advance(index, stream.matched[k], text[at]);
      if (!counts || decided || end <= stream.checked || stream.matched[k] < size) continue;
      if (!found || end - size < found->begin) found = Found{index, end - size};
    }
  }
  return found;
}

std::optional<StopScanner::Found> StopScanner::feed(Stream& stream, int32_t id, bool counts,
                                                    std::string& out) const {
  const std::size_t before = out.size();
  stream.detokenizer.push(id, out);
  if (stream.indices.empty()) {
    stream.length += out.size() - before;
    return std::nullopt;
  }
  auto found = search(stream, std::string_view(out).substr(before), stream.length, counts);
  stream.length += out.size() - before;
  const std::string undecided = stream.detokenizer.undecided();
  if (!found && !undecided.empty()) {
    const std::vector<std::size_t> matched = stream.matched;
    found = search(stream, undecided, stream.length, counts);
    stream.matched = matched;
  }
  stream.checked = std::max(stream.checked, stream.length + undecided.size());
  return found;
}

std::optional<StopMatch> StopScanner::push(int32_t id, bool counts, std::string& visible) {
  std::optional<StopMatch> match;
  if (const auto found = feed(visible_, id, counts, visible)) {
    match = StopMatch{found->index, found->begin};
  }
  if (!full_) return match;
  std::string full;
  const auto found = feed(*full_, id, counts, full);
  note_border();
  if (found) {
    const std::size_t begin = visible_offset(found->begin);
    if (!match || begin < match->begin) match = StopMatch{found->index, begin};
  }
  return match;
}

void StopScanner::note_border() {
  borders_.emplace_back(full_->length, visible_.length);
  const std::size_t reach = stops_->longest() + 1;
  const std::size_t oldest = full_->length > reach ? full_->length - reach : 0;
  while (borders_.size() > 2 && borders_[1].first <= oldest && borders_[2].first <= oldest) {
    borders_.pop_front();
  }
}

std::size_t StopScanner::visible_offset(std::size_t full_offset) const {
  auto before = borders_.front();
  for (const auto& border : borders_) {
    if (border.first > full_offset) {
      return std::min(before.second + (full_offset - before.first), border.second);
    }
    before = border;
  }
  return before.second + (full_offset - before.first);
}

void StopScanner::finish(std::string& visible) {
  const std::size_t before = visible.size();
  visible_.detokenizer.finish(visible);
  visible_.length += visible.size() - before;
}

std::size_t StopScanner::settled() const {
  std::size_t settled = visible_.length;
  for (std::size_t k = 0; k < visible_.indices.size(); ++k) {
    const std::size_t open = stops_->open(visible_.indices[k], visible_.matched[k]);
    settled = std::min(settled, visible_.length - open);
  }
  for (std::size_t k = 0; full_ && k < full_->indices.size(); ++k) {
    const std::size_t open = stops_->open(full_->indices[k], full_->matched[k]);
    settled = std::min(settled, visible_offset(full_->length - open));
  }
  return settled;
}

}  // namespace rlgen::text
