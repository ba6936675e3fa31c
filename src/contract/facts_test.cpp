#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "contract/collective_sender_spec.h"
#include "contract/config/disagg_config.h"
#include "contract/routes/routed_experts.h"

namespace rlgen {
namespace {

using nlohmann::json;

// tests/contract/facts.json: the defaults as Python writes them.
class Facts : public testing::Test {
 protected:
  void SetUp() override {
    const auto text = read_file("tests/contract/facts.json");
    ASSERT_TRUE(text.ok()) << text.status();
    facts_ = json::parse(*text);
  }

  std::string value_of(const std::string& constant) const {
    for (const json& entry : facts_.at("constants")) {
      if (entry.at("name") == constant) return entry.at("value");
    }
    return "missing";
  }

  // Field -> default of a class.
  std::map<std::string, std::string> defaults_of(const std::string& name) const {
    std::map<std::string, std::string> defaults;
    for (const json& entry : facts_.at("classes")) {
      if (entry.at("name") != name) continue;
      for (const json& field : entry.at("fields")) {
        defaults[field.at("name")] = field.value("default", "missing");
      }
    }
    return defaults;
  }

  json facts_;
};

std::string python(bool value) { return value ? "True" : "False"; }

TEST_F(Facts, TheConstantsHaveTheirValues) {
  EXPECT_EQ(value_of("ROUTED_EXPERTS_FALLBACK_DTYPE"),
            "torch." + std::string(torch_name(kRoutedExpertsFallbackDtype)));
  EXPECT_EQ(value_of("ROUTED_EXPERTS_MISSING_ROUTE_SENTINEL"),
            std::to_string(kRoutedExpertsMissingRouteSentinel));
  std::string names;
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32}) {
    const std::string name(*routed_experts_dtype_name(dtype));
    names += (names.empty() ? "" : ", ") + ("torch." + name) + ": '" + name + "'";
  }
  EXPECT_EQ(value_of("_ROUTED_EXPERTS_DTYPE_NAMES"), "{" + names + "}");
}

TEST_F(Facts, DisaggConfigHasItsDefaults) {
  const DisaggConfig config;
  const std::map<std::string, std::string> expected{
      {"enabled", python(config.enabled)},
      {"num_prefill_engines", std::to_string(config.num_prefill_engines)},
      {"num_decode_engines", std::to_string(config.num_decode_engines)},
      {"num_frontend_workers", std::to_string(config.num_frontend_workers)},
      {"frontend_tokenize", python(config.frontend_tokenize)},
      {"frontend_base_port", std::to_string(config.frontend_base_port)}};
  EXPECT_EQ(defaults_of("DisaggConfig"), expected);
}

TEST_F(Facts, CollectiveSenderSpecHasItsDefaults) {
  const CollectiveSenderSpec spec;
  EXPECT_FALSE(spec.buffer_size_bytes);
  EXPECT_FALSE(spec.num_buffers);
  const std::map<std::string, std::string> expected{
      {"nccl_peer", "'" + spec.nccl_peer + "'"},
      {"buffer_size_bytes", "None"},
      {"num_buffers", "None"},
      {"use_legacy_packing", python(spec.use_legacy_packing)}};
  EXPECT_EQ(defaults_of("CollectiveSenderSpec"), expected);
}

}  // namespace
}  // namespace rlgen
