#include "cli/diff/point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rlgen::cli {
namespace {

using models::ForwardPoint;

// The places of a model of two layers as they are computed.
const std::vector<std::string> kInOrder = {"embedding",
                                           "layers.0.input_norm",
                                           "layers.0.qkv",
                                           "layers.0.attention",
                                           "layers.0.post_attention",
                                           "layers.0.output",
                                           "layers.1.input_norm",
                                           "layers.1.qkv",
                                           "layers.1.attention",
                                           "layers.1.post_attention",
                                           "layers.1.output",
                                           "layers.10.qkv",
                                           "final_norm",
                                           "logits"};

TEST(Point, NamesAreReadBackAndOrderedByComputation) {
  std::vector<Point> points;
  for (const std::string& name : kInOrder) {
    const auto point = parse_point(name);
    ASSERT_TRUE(point) << name;
    EXPECT_EQ(point_name(*point), name);
    points.push_back(*point);
  }
  EXPECT_TRUE(std::ranges::is_sorted(points));
  EXPECT_EQ(std::ranges::adjacent_find(points), points.end());
}

TEST(Point, OtherNamesAreNone) {
  for (const char* name :
       {"", "qkv", "layers.0", "layers.0.", "layers.0.logits", "layers.x.qkv", "layers.-1.qkv",
        "layers.0qkv", "layers.99999999999.qkv", "layers.0.qkv ", "Embedding", "layers..qkv"}) {
    EXPECT_FALSE(parse_point(name)) << name;
  }
}

TEST(Point, ElementsOfHeadsAndTokens) {
  models::DecoderSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 8;
  const Point qkv{ForwardPoint::kQkv, 0};
  EXPECT_EQ(element_name(qkv, 0, spec), "query head 0, element 0");
  EXPECT_EQ(element_name(qkv, 31, spec), "query head 3, element 7");
  EXPECT_EQ(element_name(qkv, 32, spec), "key head 0, element 0");
  EXPECT_EQ(element_name(qkv, 47, spec), "key head 1, element 7");
  EXPECT_EQ(element_name(qkv, 48, spec), "value head 0, element 0");
  EXPECT_EQ(element_name({ForwardPoint::kAttention, 1}, 9, spec), "query head 1, element 1");
  EXPECT_EQ(element_name({ForwardPoint::kLogits, -1}, 9, spec), "token 9");
  EXPECT_EQ(element_name({ForwardPoint::kOutput, 1}, 9, spec), "");
}

// Queries as they meet latents; what heads give has a size of its own.
TEST(Point, ElementsOfLatentAttention) {
  models::DecoderSpec spec;
  spec.heads = 4;
  spec.kv_heads = 1;
  spec.head_dim = 20;
  spec.latent = {.rank = 14, .plain = 8, .rotated = 6, .value = 10};
  EXPECT_EQ(element_name({ForwardPoint::kQkv, 0}, 61, spec), "query head 3, element 1");
  EXPECT_EQ(element_name({ForwardPoint::kAttention, 0}, 31, spec), "query head 3, element 1");
}

}  // namespace
}  // namespace rlgen::cli
