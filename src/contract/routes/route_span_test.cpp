#include "contract/routes/route_span.h"

#include <gmock/gmock.h>

#include "contract/host_tensor.h"

namespace rlgen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr RouteFacts kTwoLayersOfTwo{.layers = 2, .top_k = 2, .experts = 5};

RouteSpan span_of(int32_t first, const std::vector<int8_t>& ids) {
  RouteSpan span = empty_route_span(kTwoLayersOfTwo, first);
  for (const int8_t id : ids) span.ids.push_back(static_cast<std::byte>(id));
  return span;
}

TEST(RouteSpan, FactsSayTheTypeAndWhetherThereAreAny) {
  EXPECT_FALSE(RouteFacts{}.recorded());
  EXPECT_FALSE(empty_route_span({}, 3).present());
  EXPECT_EQ(kTwoLayersOfTwo.dtype(), DType::kInt8);
  EXPECT_EQ((RouteFacts{.layers = 1, .top_k = 1, .experts = 129}.dtype()), DType::kInt16);
  EXPECT_EQ((RouteFacts{.layers = 1, .top_k = 1, .experts = 32769}.dtype()), DType::kInt32);
  const RouteSpan empty = empty_route_span(kTwoLayersOfTwo, 3);
  EXPECT_TRUE(empty.present());
  EXPECT_EQ(empty.rows(), 0);
  EXPECT_EQ(empty.view().shape, (Shape{0, 2, 2}));
}

TEST(RouteSpan, RowsThatFollowAreAppended) {
  RouteSpan all;
  EXPECT_TRUE(append_routes({}, &all).ok());
  EXPECT_FALSE(all.present());
  EXPECT_TRUE(append_routes(span_of(3, {0, 1, 2, 3}), &all).ok());
  EXPECT_TRUE(append_routes(span_of(4, {4, 3, 2, 1, 0, 4, 1, 2}), &all).ok());
  EXPECT_TRUE(append_routes({}, &all).ok());
  EXPECT_EQ(all, span_of(3, {0, 1, 2, 3, 4, 3, 2, 1, 0, 4, 1, 2}));
  EXPECT_EQ(all.rows(), 3);
  EXPECT_EQ(all.end(), 6);
  EXPECT_THAT(*read_integers(all.view()), ElementsAre(0, 1, 2, 3, 4, 3, 2, 1, 0, 4, 1, 2));
}

TEST(RouteSpan, AGapAnOverlapAndAnotherShapeAreRefused) {
  RouteSpan all = span_of(3, {0, 1, 2, 3});
  EXPECT_THAT(message_of(append_routes(span_of(5, {0, 1, 2, 3}), &all)),
              HasSubstr("from token 5 on, token 4 is next"));
  EXPECT_FALSE(append_routes(span_of(3, {0, 1, 2, 3}), &all).ok());
  RouteSpan other = span_of(4, {});
  other.layers = 3;
  EXPECT_THAT(message_of(append_routes(other, &all)), HasSubstr("3 layers"));
  EXPECT_EQ(all.rows(), 1);
}

TEST(RouteSpan, AnExpertThatThereIsNotIsNamed) {
  EXPECT_TRUE(check_experts({}, 5).ok());
  EXPECT_TRUE(check_experts(span_of(3, {0, 4, -1, -1}), 5).ok());
  EXPECT_THAT(message_of(check_experts(span_of(3, {0, 1, 2, 3, 4, 3, 2, 5}), 5)),
              HasSubstr("token 4, layer 1 name expert 5"));
  EXPECT_FALSE(check_experts(span_of(3, {0, 1, 2, -2}), 5).ok());
}

}  // namespace
}  // namespace rlgen
