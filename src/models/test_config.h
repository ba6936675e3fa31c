#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/json_document.h"
#include "models/registry.h"
#include "models/test_files.h"

// Configurations for the tests of this folder: those of the fixtures, changed.
namespace rlgen::models::test {

using nlohmann::json;

inline json config_of(const std::string& fixture) {
  return *read_json_file(test::folder_of_fixture(fixture) + "/config.json");
}

inline json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

inline json without(json config, const std::string& key) {
  config.erase(key);
  return config;
}

inline DecoderSpec accept(const json& config) {
  const auto resolved = resolve_config(config, "config.json", 0);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? resolved->spec : DecoderSpec{};
}

inline std::string refuse(const json& config, absl::StatusCode code, int64_t max_model_len = 0) {
  const auto resolved = resolve_config(config, "config.json", max_model_len);
  if (resolved.ok()) return "accepted";
  EXPECT_EQ(resolved.status().code(), code) << resolved.status();
  return message_of(resolved.status());
}

inline std::string wrong(const json& config) {
  return refuse(config, absl::StatusCode::kInvalidArgument);
}
inline std::string unserved(const json& config) {
  return refuse(config, absl::StatusCode::kUnimplemented);
}

inline std::vector<int> windows(const DecoderSpec& spec) {
  std::vector<int> result;
  for (const LayerSpec& layer : spec.layer) result.push_back(layer.window);
  return result;
}

}  // namespace rlgen::models::test
