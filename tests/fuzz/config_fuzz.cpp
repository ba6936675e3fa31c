#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/json_document.h"
#include "models/registry.h"

// A configuration that is accepted describes a model with a positive context.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = rlgen::models::parse_json(text, "config.json");
  if (!document.ok()) return 0;
  const auto config = rlgen::models::resolve_config(*document, "config.json", 0);
  if (config.ok() && (config->family == nullptr || config->max_model_len < 1)) __builtin_trap();
  return 0;
}
