#include "models/stop_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/test_files.h"

namespace rlgen::models {
namespace {

using nlohmann::json;
using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTokenizer =
    R"({"version":"1.0","added_tokens":[{"id":5,"content":"<a>","special":true},)"
    R"({"content":"<b>","id":7}],"model":{"vocab":{"x":1,"<c>":9},"merges":[["x","x"]]}})";

std::vector<int32_t> accepted_ids(const TempFolder& folder, const json& config,
                                  int32_t rows = 200000) {
  const auto ids = read_stop_ids(folder.path(), config, rows);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<int32_t>{-1};
}

std::string ids_fault(const TempFolder& folder, const json& config, int32_t rows = 200000) {
  const auto ids = read_stop_ids(folder.path(), config, rows);
  return ids.ok() ? "accepted" : message_of(ids.status());
}

TEST(StopIds, FB168_GenerationConfigAddsToConfig) {
  TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[151645,151643]})");
  EXPECT_THAT(accepted_ids(folder, {{"eos_token_id", 151645}}), ElementsAre(151643, 151645));
}

TEST(StopIds, FB169_UnionOfAllThreeFiles) {
  TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":6})");
  folder.write("tokenizer_config.json", R"({"eos_token":"<b>"})");
  folder.write("tokenizer.json", kTokenizer);
  EXPECT_THAT(accepted_ids(folder, {{"eos_token_id", {5}}}), ElementsAre(5, 6, 7));
  EXPECT_THAT(accepted_ids(folder, {{"eos_token_id", 7}}), ElementsAre(6, 7));
}

TEST(StopIds, NothingIsMadeUp) {
  TempFolder folder;
  EXPECT_THAT(accepted_ids(folder, json::object()), IsEmpty());
  folder.write("generation_config.json", R"({"eos_token_id":null})");
  folder.write("tokenizer_config.json", R"({"eos_token":null})");
  EXPECT_THAT(accepted_ids(folder, {{"eos_token_id", nullptr}}), IsEmpty());
}

TEST(StopIds, EndTokenAsObjectOrWithItsIdInTheConfig) {
  TempFolder folder;
  folder.write("tokenizer.json", kTokenizer);
  folder.write("tokenizer_config.json", R"({"eos_token":{"content":"<c>","lstrip":false}})");
  EXPECT_THAT(accepted_ids(folder, json::object()), ElementsAre(9));
  folder.write("tokenizer_config.json",
               R"({"eos_token":"<z>","added_tokens_decoder":{"4":{"content":"<z>"}}})");
  EXPECT_THAT(accepted_ids(folder, json::object()), ElementsAre(4));
}

TEST(StopIds, AnEndTokenWithoutIdIsAnError) {
  TempFolder folder;
  folder.write("tokenizer_config.json", R"({"eos_token":"<z>"})");
  EXPECT_THAT(ids_fault(folder, json::object()), HasSubstr("eos_token \"<z>\" has no id"));
  folder.write("tokenizer.json", kTokenizer);
  EXPECT_THAT(ids_fault(folder, json::object()), HasSubstr("does not list it"));
  folder.write("tokenizer.json", "{\"added_tokens\":");
  EXPECT_THAT(ids_fault(folder, json::object()), HasSubstr("tokenizer.json: not valid JSON"));
}

TEST(StopIds, IdsMustBeInTheVocabulary) {
  TempFolder folder;
  EXPECT_THAT(ids_fault(folder, {{"eos_token_id", 10}}, 10),
              HasSubstr("config.json: eos_token_id is 10, expected a token id from 0 to 9"));
  EXPECT_THAT(ids_fault(folder, {{"eos_token_id", {1, -1}}}, 10), HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(ids_fault(folder, {{"eos_token_id", "2"}}, 10), HasSubstr("eos_token_id is \"2\""));
  folder.write("generation_config.json", "[]");
  EXPECT_THAT(ids_fault(folder, json::object(), 10), HasSubstr("not an object"));
}

TEST(FindTokenId, AddedTokensComeBeforeTheVocabulary) {
  EXPECT_EQ(*find_token_id(kTokenizer, "<a>", "t"), 5);
  EXPECT_EQ(*find_token_id(kTokenizer, "<b>", "t"), 7);
  EXPECT_EQ(*find_token_id(kTokenizer, "x", "t"), 1);
  EXPECT_EQ(*find_token_id(kTokenizer, "y", "t"), std::nullopt);
  EXPECT_EQ(
      *find_token_id(R"({"model":{"vocab":{"<a>":1}},"added_tokens":[{"id":2,"content":"<a>"}]})",
                     "<a>", "t"),
      2);
  EXPECT_FALSE(find_token_id(std::string(100000, '['), "x", "t").ok());
}

}  // namespace
}  // namespace rlgen::models
