#include "models/json_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rlgen::models {
namespace {

using ::testing::HasSubstr;

std::string json_fault(std::string_view text) {
  const auto parsed = parse_json(text, "x.json");
  return parsed.ok() ? "accepted" : message_of(parsed.status());
}

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(JsonDocument, KeepsValuesOfEveryKind) {
  const auto parsed = parse_json(R"({"a":[1,-2,2.5,true,null,"x"],"b":{"c":{}}})", "x.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dump(), R"({"a":[1,-2,2.5,true,null,"x"],"b":{"c":{}}})");
}

TEST(JsonDocument, RefusesRepeatedKeys) {
  EXPECT_THAT(json_fault(R"({"a":1,"b":{"a":2,"a":3}})"),
              HasSubstr("x.json: key \"a\" appears twice"));
}

TEST(JsonDocument, RefusesWhatIsNoJson) {
  EXPECT_THAT(json_fault(""), HasSubstr("not valid JSON at byte 1"));
  EXPECT_THAT(json_fault("{} x"), HasSubstr("not valid JSON at byte 4"));
  EXPECT_THAT(json_fault(R"({"eps": NaN})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(json_fault(R"({"eps": 1e999})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(json_fault("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(json_fault(R"({"a":1)"), HasSubstr("not valid JSON"));
}

TEST(JsonDocument, RefusesDeepNestingAtOnce) {
  EXPECT_THAT(json_fault(repeated("[", 1'000'000)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(json_fault(repeated("{\"a\":", 1'000'000)),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_EQ(json_fault(repeated("[", 64) + repeated("]", 64)), "accepted");
}

TEST(JsonDocument, GivesTheCodeThatWasAskedFor) {
  EXPECT_EQ(parse_json("[", "x", absl::StatusCode::kDataLoss).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(read_json_file("/nowhere/x.json").status().code(), absl::StatusCode::kNotFound);
}

TEST(JsonDocument, ShowsLongValuesShortened) {
  EXPECT_EQ(show_json("abc"), "\"abc\"");
  EXPECT_EQ(show_json(nlohmann::json::array({1, 2})), "[1,2]");
  EXPECT_EQ(show_json(std::vector<int>(1000)), "array of 1000 elements");
  EXPECT_EQ(show_json(std::string(100, 'x')).size(), 63u);
}

}  // namespace
}  // namespace rlgen::models
