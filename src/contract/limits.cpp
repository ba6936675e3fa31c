#include "contract/limits.h"

#include <fmt/format.h>

namespace rlgen {

std::string WholeRange::rule() const {
  return words.empty() ? fmt::format("a whole number from {} to {}", low, high)
                       : std::string(words);
}

}  // namespace rlgen
