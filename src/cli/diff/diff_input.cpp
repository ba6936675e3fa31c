#include "cli/diff/diff_input.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "generation/json_line.h"
#include "generation/line_reader.h"
#include "generation/rollout_line.h"
#include "generation/text_session.h"
#include "models/model.h"

namespace rlgen::cli {
namespace {

using nlohmann::ordered_json;

StatusOr<TokenIds> encode(const std::string& model, const std::string& prompt) {
  RLGEN_ASSIGN_OR_RETURN(const std::string folder, models::resolve_model_path(model));
  const auto text = generation::TextSession::open(folder);
  if (!text.ok()) return annotate(text.status(), "--prompt");
  return (*text)->encode(generation::TextPrompt{prompt});
}

// Nothing for a line with an error.
StatusOr<std::optional<TokenIds>> read_input_line(const std::string& line) {
  RLGEN_ASSIGN_OR_RETURN(ordered_json object, generation::parse_json_line(line));
  const auto error = object.find("error");
  if (error != object.end() && !error->is_null()) return std::optional<TokenIds>();
  if (!object.contains("token_ids")) object["token_ids"] = ordered_json::array();
  RLGEN_ASSIGN_OR_RETURN(const auto score, generation::read_score_line(object));
  TokenIds ids = score.prompt_token_ids;
  ids.insert(ids.end(), score.token_ids.begin(), score.token_ids.end());
  if (!ids.empty()) return std::optional(std::move(ids));
  return absl::InvalidArgumentError("prompt_token_ids is empty");
}

template <typename Id>
Status check_in_vocabulary(const std::vector<Id>& ids, int32_t vocab_size) {
  for (const Id id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is no token id; they go from 0 to {}", id, vocab_size - 1));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<TokenIds>> given_ids(const std::vector<int64_t>& ids, int32_t vocab_size) {
  RLGEN_RETURN_IF_ERROR(annotate(check_in_vocabulary(ids, vocab_size), "--prompt-token-ids"));
  return std::vector<TokenIds>{TokenIds(ids.begin(), ids.end())};
}

StatusOr<std::vector<TokenIds>> read_file_of_lines(const std::string& path, int32_t vocab_size) {
  RLGEN_ASSIGN_OR_RETURN(auto reader, generation::LineReader::open(path));
  std::vector<TokenIds> sequences;
  for (;;) {
    RLGEN_ASSIGN_OR_RETURN(const auto line, reader.next());
    if (!line) break;
    if (generation::is_blank(line->text)) continue;
    auto ids = read_input_line(line->text);
    const Status status = ids.ok() && *ids ? check_in_vocabulary(**ids, vocab_size) : ids.status();
    if (!status.ok()) return annotate(status, fmt::format("{} line {}", path, line->number + 1));
    if (*ids) sequences.push_back(**std::move(ids));
  }
  if (!sequences.empty()) return sequences;
  return absl::InvalidArgumentError(fmt::format("{}: no line with token ids in it", path));
}

}  // namespace

StatusOr<std::vector<TokenIds>> read_sequences(const DiffOptions& options, int32_t vocab_size) {
  if (!options.input.empty()) return read_file_of_lines(options.input, vocab_size);
  if (!options.prompt) return given_ids(options.prompt_token_ids, vocab_size);
  RLGEN_ASSIGN_OR_RETURN(TokenIds ids, encode(options.left.spec.model, *options.prompt));
  if (!ids.empty()) return std::vector<TokenIds>{std::move(ids)};
  return absl::InvalidArgumentError("--prompt has no tokens");
}

}  // namespace rlgen::cli
