#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "text/detokenizer.h"

// Compares with what Hugging Face's Python library gave for the stored texts (docs/fixtures.md), or
// for those of another folder, which the environment names in RLGEN_TOKENIZER_GOLDENS.
namespace rlgen::text {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

const std::filesystem::path kFixtures = "tests/fixtures/text/tokenizers";
const std::filesystem::path kSmolLm2 = "models/SmolLM2-135M-Instruct";

std::filesystem::path tokenizer_goldens() {
  const char* other = std::getenv("RLGEN_TOKENIZER_GOLDENS");
  return other != nullptr ? other : kFixtures;
}

class TokenizerParity : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool downloaded = GetParam() == "smollm2";
    const std::filesystem::path folder = downloaded ? kSmolLm2 : kFixtures / GetParam();
    if (downloaded && !std::filesystem::exists(folder)) {
      GTEST_SKIP() << folder << " is not there; tools/fetch_demo_model.py makes it";
    }
    const auto loaded = Tokenizer::load(folder.string());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *loaded;
    const auto text = read_file((tokenizer_goldens() / GetParam() / "goldens.json").string());
    ASSERT_TRUE(text.ok()) << text.status();
    cases_ = Json::parse(*text)["cases"];
    ASSERT_GT(cases_.size(), 100u);
  }

  std::string stream(const Ids& ids, bool skip) const {
    Detokenizer detokenizer(tokenizer_, skip);
    std::string out;
    for (int32_t id : ids) detokenizer.push(id, out);
    detokenizer.finish(out);
    return out;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  Json cases_;
};

TEST_P(TokenizerParity, FB183_FB184_FB187_IdsEqualTheReference) {
  for (const Json& golden : cases_) {
    const std::string text = golden["text"];
    EXPECT_EQ(*tokenizer_->encode(text, false), golden["ids"].get<Ids>()) << golden["text"];
    EXPECT_EQ(*tokenizer_->encode(text, true), golden["ids_with_special"].get<Ids>())
        << golden["text"];
  }
}

// The reference damages added tokens with letters beyond ASCII; there the goldens have null and the
// text itself is right.
TEST_P(TokenizerParity, FB188_DecodedTextEqualsTheReference) {
  for (const Json& golden : cases_) {
    const Ids ids = golden["ids"];
    const Json& decoded = golden["decoded"].is_null() ? golden["text"] : golden["decoded"];
    EXPECT_EQ(*tokenizer_->decode(ids, false), decoded.get<std::string>());
    const Json& visible = golden["decoded_without_special"];
    if (visible.is_null()) continue;
    EXPECT_EQ(*tokenizer_->decode(ids, true), visible.get<std::string>());
  }
}

TEST_P(TokenizerParity, StreamedTextEqualsDecode) {
  for (const Json& golden : cases_) {
    const Ids ids = golden["ids_with_special"];
    for (bool skip : {false, true}) {
      EXPECT_EQ(stream(ids, skip), *tokenizer_->decode(ids, skip)) << golden["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenizerParity,
                         testing::Values("byte_level", "llama3", "mistral_legacy",
                                         "mistral_metaspace", "mistral_tekken", "mixed", "qwen",
                                         "smollm2"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace rlgen::text
