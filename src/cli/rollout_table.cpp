#include "cli/rollout_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

namespace rlgen::cli {
namespace {

constexpr size_t kShownLogprobs = 4;
constexpr size_t kShownText = 56;
constexpr size_t kShownId = 16;

std::optional<int64_t> number_of(const std::string& id) {
  int64_t value = 0;
  const char* const end = id.data() + id.size();
  const auto read = std::from_chars(id.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

bool comes_before(const TableRow& a, const TableRow& b) {
  const auto key = [](const TableRow& row) {
    const auto number = number_of(row.id);
    return std::make_tuple(!number.has_value(), number.value_or(0), row.id, row.sample);
  };
  return key(a) < key(b);
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// One character, or the escape of a control character.
std::string escaped(std::string_view character) {
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  const auto byte = static_cast<unsigned char>(character[0]);
  return byte < 0x20 ? fmt::format("\\x{:02x}", byte) : std::string(character);
}

// Pads to `width` characters; fmt would count some of them as two.
std::string padded(const std::string& text, size_t width) {
  const auto characters = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
  return characters < width ? text + std::string(width - characters, ' ') : text;
}

}  // namespace

std::string shorten(std::string_view text, size_t width) {
  constexpr size_t kDots = 3;
  std::string line;
  size_t length = 0;
  size_t cut = 0;  // bytes of `line` that leave room for the dots
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && is_continuation(text[end])) ++end;
    const std::string shown = escaped(text.substr(i, end - i));
    length += is_continuation(shown.back()) ? 1 : shown.size();
    if (length > width) return line.substr(0, cut) + "...";
    line += shown;
    if (length + kDots <= width) cut = line.size();
    i = end;
  }
  return line;
}

TableRow table_row(const Rollout& rollout) {
  TableRow row;
  row.id = shorten(rollout.id, kShownId);
  row.sample = rollout.sample;
  row.finish = std::string(finish_reason_name(rollout.finish.reason));
  row.tokens = static_cast<int64_t>(rollout.tokens.size());
  for (const TokenRecord& record : rollout.tokens) {
    row.logprob_sum += static_cast<double>(record.logprob);
    if (row.first_logprobs.size() < kShownLogprobs) row.first_logprobs.push_back(record.logprob);
  }
  const bool failed = rollout.finish.reason == FinishReason::kError;
  row.text = shorten(failed ? message_of(rollout.finish.error) : rollout.text, kShownText);
  return row;
}

std::string rollout_table(std::vector<TableRow> rows, LogprobsMode mode) {
  std::stable_sort(rows.begin(), rows.end(), comes_before);
  std::string table =
      fmt::format("{:<16} {:>6}  {:<6} {:>6} {:>10} {:>8}  {:<31}  text\n", "id", "sample",
                  "finish", "tokens", "logprob", "a token", "first tokens' logprobs");
  for (const TableRow& row : rows) {
    std::string first;
    for (const float logprob : row.first_logprobs) first += fmt::format("{:>7.3f} ", logprob);
    const double mean = row.tokens > 0 ? row.logprob_sum / static_cast<double>(row.tokens) : 0.0;
    const std::string numbers = row.tokens > 0
                                    ? fmt::format("{:>10.3f} {:>8.3f}", row.logprob_sum, mean)
                                    : fmt::format("{:>10} {:>8}", "-", "-");
    table += fmt::format("{} {:>6}  {:<6} {:>6} {}  {:<31}  {}\n", padded(row.id, 16), row.sample,
                         row.finish, row.tokens, numbers, first, row.text);
  }
  table += fmt::format("log-probabilities: {}\n", logprobs_mode_name(mode));
  return table;
}

}  // namespace rlgen::cli
