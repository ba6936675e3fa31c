#include "contract/routes/route_rows.h"

#include <gmock/gmock.h>

namespace rlgen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `rows` rows of one layer and two experts, row r being (10 + r, 20 + r).
HostTensor delivered(int64_t rows) {
  HostTensor tensor(DType::kInt32, Shape{rows, 1, 2});
  for (int32_t r = 0; r < rows; ++r) {
    tensor.as<int32_t>()[2 * r] = 10 + r;
    tensor.as<int32_t>()[2 * r + 1] = 20 + r;
  }
  return tensor;
}

// Five tokens in a row of six.
constexpr RouteLayout kFiveOfSix{.valid_length = 5, .padded_length = 6, .dtype = DType::kInt8};

TEST(RouteRows, T13_MissingRowsAreTheSentinelAndTheRestIsTheDummy) {
  RouteCounts counts;
  const auto routes = lay_out_routes(delivered(3).view(), kFiveOfSix, &counts);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_EQ(routes->dtype(), DType::kInt8);
  EXPECT_EQ(routes->shape(), (Shape{6, 1, 2}));
  EXPECT_THAT(*read_integers(routes->view()),
              ElementsAre(10, 20, 11, 21, 12, 22, -1, -1, 0, 1, 0, 1));
  EXPECT_EQ(counts, (RouteCounts{.expected = 4, .actual = 3, .missing = 1}));
}

TEST(RouteRows, T13_FB236_OneSurplusRowIsToleratedAndNotUsed) {
  RouteCounts counts;
  const auto routes = lay_out_routes(delivered(5).view(), kFiveOfSix, &counts);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(*read_integers(routes->view()),
              ElementsAre(10, 20, 11, 21, 12, 22, 13, 23, 0, 1, 0, 1));
  EXPECT_EQ(counts, (RouteCounts{.expected = 4, .actual = 5, .missing = 0}));
}

TEST(RouteRows, T13_MoreSurplusRowsAreRefused) {
  RouteCounts counts;
  EXPECT_THAT(
      std::string(lay_out_routes(delivered(6).view(), kFiveOfSix, &counts).status().message()),
      HasSubstr("6 rows for 5 tokens"));
  RouteLayout lenient = kFiveOfSix;
  lenient.must_be_complete = false;
  EXPECT_TRUE(lay_out_routes(delivered(6).view(), lenient, &counts).ok());
  EXPECT_EQ(counts, (RouteCounts{.expected = 4, .actual = 6, .missing = 0, .surplus = 1}));
}

TEST(RouteRows, T13_AnIdThatDoesNotFitIsRefused) {
  HostTensor wide = delivered(4);
  wide.as<int32_t>()[0] = 128;
  RouteCounts counts;
  EXPECT_THAT(std::string(lay_out_routes(wide.view(), kFiveOfSix, &counts).status().message()),
              HasSubstr("number of experts"));
  wide.as<int32_t>()[0] = -2;
  EXPECT_FALSE(lay_out_routes(wide.view(), kFiveOfSix, &counts).ok());
}

TEST(RouteRows, T13_ARowIsMissingAsAWholeOrNotAtAll) {
  HostTensor half = delivered(4);
  half.as<int32_t>()[2] = -1;
  RouteCounts counts;
  EXPECT_THAT(std::string(lay_out_routes(half.view(), kFiveOfSix, &counts).status().message()),
              HasSubstr("row 1"));
  half.as<int32_t>()[3] = -1;
  EXPECT_TRUE(lay_out_routes(half.view(), kFiveOfSix, &counts).ok());
}

TEST(RouteRows, T13_OtherShapesAreRefused) {
  RouteCounts counts;
  EXPECT_FALSE(
      lay_out_routes(HostTensor(DType::kInt32, Shape{4, 2}).view(), kFiveOfSix, &counts).ok());
  EXPECT_FALSE(
      lay_out_routes(HostTensor(DType::kFloat32, Shape{4, 1, 2}).view(), kFiveOfSix, &counts).ok());
}

TEST(RouteRows, ASampleWithoutTokensExpectsNothing) {
  RouteCounts counts;
  const RouteLayout empty{.valid_length = 0, .padded_length = 1};
  const auto routes = lay_out_routes(delivered(0).view(), empty, &counts);
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(*read_integers(routes->view()), ElementsAre(0, 1));
  EXPECT_EQ(counts, RouteCounts{});
}

}  // namespace
}  // namespace rlgen
