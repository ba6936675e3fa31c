#include "contract/batch/route_columns.h"

#include <gmock/gmock.h>

#include <vector>

#include "contract/batch/output_batch.h"
#include "contract/error_type.h"

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr RouteFacts kTwoLayers{.layers = 2, .top_k = 2, .experts = 200};

// A rollout of `length` tokens, of which the first `rows` have routes: of layer l the experts
// (l, 150).
Rollout routed(int32_t length, int32_t rows) {
  Rollout made;
  made.prompt_token_ids.assign(static_cast<size_t>(length) - 1, 1);
  made.tokens.push_back({.token = 2, .logprob = -1.0f});
  made.routes = empty_route_span(kTwoLayers, 0);
  for (int32_t i = 0; i < 2 * rows; ++i) {
    for (const int expert : {i % 2, 150}) {
      made.routes.ids.insert(made.routes.ids.end(), {static_cast<std::byte>(expert), std::byte{0}});
    }
  }
  return made;
}

StatusOr<GenerationOutputSpec> routed_batch(const std::vector<Rollout>& rollouts) {
  OutputLayout layout;
  layout.routes = kTwoLayers;
  return make_output_batch(rollouts, layout);
}

std::vector<int64_t> column(const HostTensor& tensor) { return *read_integers(tensor.view()); }

TEST(RouteColumns, T13_RoutesAreLaidOutRowByRowAndCounted) {
  const auto batch = routed_batch({routed(3, 2), routed(2, 0)});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->routed_experts.dtype(), DType::kInt16);
  EXPECT_EQ(batch->routed_experts.shape(), (Shape{2, 3, 2, 2}));
  EXPECT_THAT(column(batch->routed_experts),
              ElementsAre(0, 150, 1, 150, 0, 150, 1, 150, 0, 1, 0, 1,  //
                          -1, -1, -1, -1, 0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(column(batch->r3_routed_experts_expected_routes), ElementsAre(2, 1));
  EXPECT_THAT(column(batch->r3_routed_experts_actual_routes), ElementsAre(2, 0));
  EXPECT_THAT(column(batch->r3_routed_experts_missing_routes), ElementsAre(0, 1));
}

TEST(RouteColumns, T13_NoRowsGiveEmptyColumns) {
  const auto batch = routed_batch({});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->routed_experts.shape(), (Shape{0, 0, 2, 2}));
  EXPECT_EQ(batch->r3_routed_experts_missing_routes.shape(), Shape{0});
}

TEST(RouteColumns, T13_RoutesThatWereAskedForAndAreNotThereAreARuntimeError) {
  std::vector<Rollout> rollouts = {routed(3, 2), routed(2, 1)};
  rollouts[1].routes = {};
  const Status error = routed_batch(rollouts).status();
  EXPECT_EQ(error_kind(error), ErrorKind::kRuntimeError);
  EXPECT_THAT(message_of(error), AllOf(HasSubstr("row 1"), HasSubstr("routed_experts")));
}

TEST(RouteColumns, T13_SurplusAndOtherShapesAreRefusedByRow) {
  Rollout more = routed(3, 4);
  more.finish.cached_tokens = 2;
  const Status surplus = routed_batch({routed(3, 2), more}).status();
  EXPECT_EQ(error_kind(surplus), ErrorKind::kValueError);
  EXPECT_EQ(
      message_of(surplus),
      "row 1: routed_experts has 4 rows for 3 tokens, of which 2 came from the prefix cache: 2 "
      "are expected, and one more for the last token is tolerated");
  EXPECT_TRUE(routed_batch({routed(3, 3)}).ok());
  Rollout later = routed(3, 2);
  later.routes.first = 1;
  EXPECT_THAT(message_of(routed_batch({later}).status()), HasSubstr("begin with token 1"));
  Rollout flat = routed(3, 2);
  flat.routes.layers = 1;
  EXPECT_THAT(message_of(routed_batch({flat}).status()), HasSubstr("1 layers and top-2"));
}

TEST(RouteColumns, T13_MissingRoutesAreToldWithAtMostEightRows) {
  EXPECT_EQ(route_fallback_warning(GenerationOutputSpec()), "");
  EXPECT_EQ(route_fallback_warning(*routed_batch({routed(3, 2)})), "");
  EXPECT_EQ(route_fallback_warning(*routed_batch({routed(3, 2), routed(4, 1)})),
            "R3 router replay fallback: 1 of 2 samples lack 2 of 5 routes, where the trainer's "
            "router decides; samples 1 (2 of 3)");
  std::vector<Rollout> many;
  for (int i = 0; i < 10; ++i) many.push_back(routed(4, 1));
  EXPECT_THAT(route_fallback_warning(*routed_batch(many)),
              AllOf(StartsWith("R3 router replay fallback: 10 of 10"), HasSubstr("7 (2 of 3), ..."),
                    Not(HasSubstr("8 (2"))));
}

}  // namespace
}  // namespace rlgen
