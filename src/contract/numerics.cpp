#include "contract/numerics.h"

#include <fmt/format.h>

namespace rlgen {

std::string NumericsId::to_string() const {
  return fmt::format("{}/r{}/kv={}/rope={}/{}", profile, revision, kv_dtype, rotary, model_digest);
}

}  // namespace rlgen
