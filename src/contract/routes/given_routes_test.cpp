#include "contract/routes/given_routes.h"

#include <gmock/gmock.h>

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Three tokens, two layers with experts of three, two of five experts each.
constexpr GivenRouteRules kRules{
    .top_k = 2, .experts = 5, .expert_layers = 2, .layers = 3, .least_rows = 2, .most_rows = 3};

HostTensor tensor_of(DType dtype, const Shape& shape, const std::vector<int64_t>& ids) {
  HostTensor routes(dtype, shape);
  EXPECT_TRUE(write_integers(ids, &routes).ok());
  return routes;
}

std::string fault(const HostTensor& routes) {
  return message_of(check_given_routes(routes, kRules));
}

std::string fault_of_ids(const std::vector<int64_t>& ids) {
  return fault(tensor_of(DType::kInt8, Shape{2, 2, 2}, ids));
}

TEST(GivenRoutes, BothLayerAxesAndAllThreeTypesAreTaken) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32}) {
    EXPECT_EQ(fault(tensor_of(dtype, Shape{2, 2, 2}, {0, 1, 4, 3, -1, -1, 2, 0})), "");
    EXPECT_EQ(fault(tensor_of(dtype, Shape{2, 3, 2}, {0, 1, 4, 3, 0, 1, 0, 1, 2, 0, 4, 1})), "");
  }
}

TEST(GivenRoutes, OtherShapesAndTypesAreRefused) {
  EXPECT_THAT(fault(HostTensor(DType::kInt8, Shape{2, 2})), HasSubstr("[tokens, layers, top-k]"));
  EXPECT_THAT(fault(HostTensor(DType::kInt8, Shape{4, 2, 2})),
              HasSubstr("4 rows; this request takes 2 to 3"));
  EXPECT_THAT(fault(HostTensor(DType::kInt8, Shape{1, 2, 2})), HasSubstr("1 rows"));
  EXPECT_THAT(fault(HostTensor(DType::kInt8, Shape{2, 1, 2})),
              HasSubstr("1 layers; the model has 2 with experts, of 3"));
  EXPECT_THAT(fault(HostTensor(DType::kInt8, Shape{2, 2, 3})), HasSubstr("3 slots"));
  EXPECT_THAT(fault(HostTensor(DType::kInt64, Shape{2, 2, 2})), HasSubstr("int64"));
}

TEST(GivenRoutes, ARowThatIsNoneIsNamedByTokenAndLayer) {
  EXPECT_THAT(fault_of_ids({0, 1, 4, 3, 2, 2, 2, 0}),
              AllOf(HasSubstr("token 1, layer 0"), HasSubstr("expert 2 twice")));
  EXPECT_THAT(fault_of_ids({0, 1, 4, 5, 2, 3, 2, 0}),
              AllOf(HasSubstr("token 0, layer 1"), HasSubstr("expert 5; experts go from 0 to 4")));
  EXPECT_THAT(fault_of_ids({0, 1, 4, 3, 2, 3, 2, -1}),
              AllOf(HasSubstr("token 1, layer 1"), HasSubstr("1 of 2 slots at -1")));
  EXPECT_THAT(fault_of_ids({0, -2, 4, 3, 2, 3, 2, 0}), HasSubstr("expert -2"));
}

TEST(GivenRoutes, TheDigestIsThatOfTheIdsAndTheirPlaces) {
  const std::vector<int64_t> ids = {0, 1, 4, 3, -1, -1, 2, 0};
  const auto digest = [&](DType dtype, const Shape& shape) {
    return given_routes_digest(tensor_of(dtype, shape, ids));
  };
  const std::string usual = digest(DType::kInt8, Shape{2, 2, 2});
  EXPECT_EQ(usual.size(), 32u);
  EXPECT_EQ(digest(DType::kInt16, Shape{2, 2, 2}), usual);
  EXPECT_EQ(digest(DType::kInt32, Shape{2, 2, 2}), usual);
  EXPECT_NE(digest(DType::kInt8, Shape{4, 1, 2}), usual);
  HostTensor other = tensor_of(DType::kInt8, Shape{2, 2, 2}, ids);
  other.as<int8_t>()[7] = 1;
  EXPECT_NE(given_routes_digest(other), usual);
  // Many ids go in parts.
  HostTensor long_one(DType::kInt8, Shape{3000, 1, 2});
  const std::string zeros = given_routes_digest(long_one);
  long_one.as<int8_t>()[5999] = 1;
  EXPECT_NE(given_routes_digest(long_one), zeros);
}

TEST(GivenRoutes, OtherIntegersAreNarrowed) {
  const HostTensor wide = tensor_of(DType::kInt64, Shape{1, 1, 3}, {200, -1, 3});
  const auto narrow = narrow_routes(wide.view());
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(narrow->dtype(), DType::kInt16);
  EXPECT_EQ(*read_integers(narrow->view()), *read_integers(wide.view()));
  const HostTensor small = tensor_of(DType::kInt16, Shape{1, 1, 1}, {3});
  EXPECT_EQ(narrow_routes(small.view())->dtype(), DType::kInt16);
  EXPECT_FALSE(narrow_routes(HostTensor(DType::kFloat32, Shape{1, 1, 1}).view()).ok());
  const HostTensor huge = tensor_of(DType::kInt64, Shape{1, 1, 1}, {int64_t{1} << 40});
  EXPECT_THAT(message_of(narrow_routes(huge.view()).status()), HasSubstr("1099511627776"));
}

}  // namespace
}  // namespace rlgen
