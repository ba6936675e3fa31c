#include "contract/routes/routed_experts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

namespace rlgen {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RoutedExperts, T1_TheTypeIsTheNarrowestThatHoldsTheIds) {
  EXPECT_EQ(resolve_routed_experts_dtype(std::nullopt), kRoutedExpertsFallbackDtype);
  EXPECT_EQ(kRoutedExpertsFallbackDtype, DType::kInt16);
  EXPECT_EQ(resolve_routed_experts_dtype(1), DType::kInt8);
  EXPECT_EQ(resolve_routed_experts_dtype(128), DType::kInt8);
  EXPECT_EQ(resolve_routed_experts_dtype(129), DType::kInt16);
  EXPECT_EQ(resolve_routed_experts_dtype(32768), DType::kInt16);
  EXPECT_EQ(resolve_routed_experts_dtype(32769), DType::kInt32);
}

TEST(RoutedExperts, T1_NamesAreThoseOfTheThreeTypes) {
  EXPECT_EQ(routed_experts_dtype_name(DType::kInt8), "int8");
  EXPECT_EQ(routed_experts_dtype_name(DType::kInt16), "int16");
  EXPECT_EQ(routed_experts_dtype_name(DType::kInt32), "int32");
  EXPECT_EQ(routed_experts_dtype_name(DType::kUInt8), std::nullopt);
  EXPECT_EQ(routed_experts_dtype_name(DType::kInt64), std::nullopt);
}

TEST(RoutedExperts, T1_CountsComeFromTheConfiguration) {
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    EXPECT_EQ(get_num_routed_experts(json{{key, 60}}), 60) << key;
    EXPECT_EQ(get_num_routed_experts(json{{"text_config", {{key, 60}}}}), 60) << key;
    for (const json& odd : {json(0), json(-3), json("8"), json(8.0), json(nullptr), json(true)}) {
      EXPECT_EQ(get_num_routed_experts(json{{key, odd}}), std::nullopt) << key << odd;
    }
  }
  EXPECT_EQ(get_num_routed_experts(json{{"num_local_experts", 4}, {"num_experts", 8}}), 8);
  EXPECT_EQ(get_num_routed_experts(json{{"num_experts", 0}, {"num_local_experts", 4}}), 4);
  EXPECT_EQ(
      get_num_routed_experts(json{{"num_local_experts", 4}, {"text_config", {{"num_experts", 8}}}}),
      4);
  EXPECT_EQ(get_num_routed_experts(json(3)), std::nullopt);
  EXPECT_EQ(get_num_routed_experts(json{{"text_config", 3}}), std::nullopt);
}

TEST(RoutedExperts, T1_AModelWithoutAConfigurationFallsBack) {
  EXPECT_EQ(resolve_routed_experts_dtype_name_for_model("no/such/folder"), "int16");
  EXPECT_EQ(resolve_routed_experts_dtype_name_for_model("tests/fixtures/checkpoints/llama"),
            "int16");
}

TEST(RoutedExperts, T1_TheTypeOfAModelFollowsItsConfiguration) {
  for (const char* name : {"qwen3_moe", "deepseek_v3", "gpt_oss"}) {
    const std::string folder = std::string("tests/fixtures/checkpoints/") + name;
    EXPECT_EQ(resolve_routed_experts_dtype_name_for_model(folder), "int8") << name;
  }
}

HostTensor routes_of(DType dtype, const Shape& shape, const std::vector<int64_t>& values) {
  HostTensor routes(dtype, shape);
  EXPECT_TRUE(write_integers(values, &routes).ok());
  return routes;
}

TEST(RoutedExperts, FB231_TheEnvelopeKeepsEveryIdAndTheSentinel) {
  const std::vector<int64_t> ids{0, 127, 128, 255, -1, 3};
  const auto text = encode_routed_experts(routes_of(DType::kInt16, Shape{3, 1, 2}, ids).view());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, testing::StartsWith("nrlre1:int16:3x1x2:"));
  const auto back = decode_routed_experts(*text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->dtype(), DType::kInt16);
  EXPECT_EQ(back->shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(*read_integers(back->view()), ids);
}

TEST(RoutedExperts, TheBytesOfTheEnvelopeAreFixed) {
  EXPECT_EQ(*encode_routed_experts(routes_of(DType::kInt8, Shape{1, 1, 3}, {1, 2, -1}).view()),
            "nrlre1:int8:1x1x3:AQL/");
  EXPECT_EQ(*encode_routed_experts(routes_of(DType::kInt8, Shape{0, 2, 2}, {}).view()),
            "nrlre1:int8:0x2x2:");
}

TEST(RoutedExperts, TheHeadOfAnEnvelopeIsReadAlone) {
  const auto open = open_route_envelope("nrlre1:int16:3x1x2:AAAB");
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->dtype, DType::kInt16);
  EXPECT_EQ(open->shape, (Shape{3, 1, 2}));
  EXPECT_EQ(open->base64, "AAAB");
}

// A byte for each id, as text, both ways in less than a second of a processor.
TEST(RoutedExpertsCost, FB241_ALongContextIsSmallAndQuick) {
  HostTensor routes(DType::kInt8, Shape{32768, 48, 8});
  const int64_t ids = routes.shape().num_elements();
  for (int64_t i = 0; i < ids; ++i) routes.as<int8_t>()[i] = static_cast<int8_t>(i * 37 % 128);
  const std::clock_t start = std::clock();
  const auto text = encode_routed_experts(routes.view());
  ASSERT_TRUE(text.ok()) << text.status();
  const auto back = decode_routed_experts(*text);
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_LT(seconds, 1.0);
  EXPECT_EQ(ids, 12'582'912);
  EXPECT_EQ(int64_t(back->bytes().size()), ids);
  EXPECT_LE(int64_t(text->size()), ids / 3 * 4 + 32);
  EXPECT_TRUE(std::ranges::equal(back->bytes(), routes.bytes()));
}

TEST(RoutedExperts, OnlyThreeDimensionsOfThreeTypesAreEncoded) {
  EXPECT_FALSE(encode_routed_experts(HostTensor(DType::kInt8, Shape{2, 2}).view()).ok());
  EXPECT_FALSE(encode_routed_experts(HostTensor(DType::kUInt8, Shape{1, 1, 1}).view()).ok());
  EXPECT_FALSE(encode_routed_experts(HostTensor(DType::kInt64, Shape{1, 1, 1}).view()).ok());
}

TEST(RoutedExperts, NestedListsAreReadToo) {
  const auto routes =
      decode_routed_experts_json(json::parse("[[[1, 2], [3, 4]], [[5, 6], [-1, -1]]]"));
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->dtype(), kRoutedExpertsFallbackDtype);
  EXPECT_EQ(routes->shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(*read_integers(routes->view()), ElementsAre(1, 2, 3, 4, 5, 6, -1, -1));
  EXPECT_EQ(decode_routed_experts_json(json("nrlre1:int8:1x1x3:AQL/"))->shape(), (Shape{1, 1, 3}));
  const auto wide = decode_routed_experts_json(json::parse("[[[32768, -1]]]"));
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->dtype(), DType::kInt32);
  EXPECT_THAT(*read_integers(wide->view()), ElementsAre(32768, -1));
}

TEST(RoutedExperts, MalformedOnesSaySo) {
  for (const char* text :
       {"", "nrlre2:int8:1x1x3:AQL/", "nrlre1:uint8:1x1x3:AQL/", "nrlre1:int8:1x3:AQL/",
        "nrlre1:int8:1x1x-3:AQL/", "nrlre1:int8:1x1x4:AQL/", "nrlre1:int8:1x1x3:A?L/",
        "nrlre1:int8:1x1x3", "nrlre1:int8:4294967296x4294967296x2:"}) {
    EXPECT_FALSE(decode_routed_experts(text).ok()) << text;
  }
  for (const char* text : {"[[1]]", "[[[1],[1,2]]]", "[[[1.5]]]", "[[[3000000000]]]", "7", "{}"}) {
    EXPECT_FALSE(decode_routed_experts_json(json::parse(text)).ok()) << text;
  }
  EXPECT_THAT(std::string(decode_routed_experts("x").status().message()), HasSubstr("nrlre1"));
}

}  // namespace
}  // namespace rlgen
