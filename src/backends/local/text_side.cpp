#include "backends/local/text_side.h"

#include "text/stop_watcher.h"
#include "text/tokenizer.h"

namespace rlgen::backends {

StatusOr<TextSide> open_text_side(const std::string& folder) {
  const auto tokenizer = text::Tokenizer::load(folder);
  if (absl::IsNotFound(tokenizer.status())) return TextSide{};
  RLGEN_RETURN_IF_ERROR(tokenizer.status());
  return TextSide{text::stop_watcher_factory(*tokenizer), (*tokenizer)->vocab_size()};
}

}  // namespace rlgen::backends
