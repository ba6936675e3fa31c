#include "engine/routes/route_store.h"

#include <gmock/gmock.h>

#include <numeric>

namespace rlgen::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Four layers, of which the second and the last have experts, two of them a token.
RouteLayers two_of_four(int32_t experts) {
  return {.expert_layers = 2, .top_k = 2, .experts = experts, .place = {-1, 0, -1, 1}};
}

// Three blocks of 16 slots, full of 0xff.
struct Blocks {
  Blocks(RouteCapture capture, int32_t experts) {
    const RouteFacts facts = route_facts(capture, two_of_four(experts));
    kernels::KvLayout layout{.layers = 4, .kv_heads = 1, .head_dim = 8, .value_dim = 8};
    layout.side_bytes = route_bytes(facts, layout.block_size);
    memory.assign(3 * layout.block_stride(), std::byte(0xff));
    auto made = RouteStore::create(capture, two_of_four(experts),
                                   {.data = memory.data(), .layout = layout});
    EXPECT_TRUE(made.ok()) << made.status();
    store = *std::move(made);
  }

  std::vector<int64_t> rows(int32_t block, int32_t slot, int32_t rows) const {
    RouteSpan span = empty_route_span(store.facts(), 0);
    store.append(block, slot, rows, &span);
    return *read_integers(span.view());
  }

  std::vector<std::byte> memory;
  RouteStore store;
};

TEST(RouteStore, KeepsRowsInTheNarrowestType) {
  for (const auto& [experts, type] : {std::pair{128, DType::kInt8},
                                      {129, DType::kInt16},
                                      {32768, DType::kInt16},
                                      {32769, DType::kInt32}}) {
    Blocks blocks(RouteCapture::kExpertLayers, experts);
    EXPECT_EQ(blocks.store.facts().dtype(), type);
    const int32_t last = experts - 1;
    const std::vector<int32_t> ids = {last, 0, 1, last};
    blocks.store.store(1, 15, ids.data());
    EXPECT_THAT(blocks.rows(1, 15, 1), ElementsAre(last, 0, 1, last));
    EXPECT_THAT(blocks.rows(2, 0, 1), ElementsAre(-1, -1, -1, -1));
  }
}

TEST(RouteStore, SlotsOfOneBlockFollowEachOtherAndBlocksDoNotMeet) {
  Blocks blocks(RouteCapture::kExpertLayers, 100);
  std::vector<int32_t> ids(4);
  for (const int32_t block : {0, 2, 1}) {
    for (int32_t slot = 0; slot < 16; ++slot) {
      std::iota(ids.begin(), ids.end(), block * 30 + slot);
      blocks.store.store(block, slot, ids.data());
    }
  }
  EXPECT_THAT(blocks.rows(0, 14, 2), ElementsAre(14, 15, 16, 17, 15, 16, 17, 18));
  EXPECT_THAT(blocks.rows(1, 0, 1), ElementsAre(30, 31, 32, 33));
  EXPECT_THAT(blocks.rows(2, 15, 1), ElementsAre(75, 76, 77, 78));
}

TEST(RouteStore, AllLayersHaveTheDummyRouteWhereThereAreNoExperts) {
  Blocks blocks(RouteCapture::kAllLayers, 8);
  EXPECT_EQ(blocks.store.facts().layers, 4);
  const std::vector<int32_t> ids = {7, 3, 2, 6};
  blocks.store.store(0, 3, ids.data());
  EXPECT_THAT(blocks.rows(0, 3, 1), ElementsAre(0, 1, 7, 3, 0, 1, 2, 6));
}

TEST(RouteStore, FB237_AModelWithoutExpertsHasNoRoutes) {
  EXPECT_FALSE(RouteStore().on());
  EXPECT_FALSE(route_facts(RouteCapture::kOff, two_of_four(8)).recorded());
  const Status dense =
      RouteStore::create(RouteCapture::kExpertLayers, {.place = {-1, -1}}, {}).status();
  EXPECT_THAT(message_of(dense), HasSubstr("no experts"));
}

TEST(RouteStore, BlocksWithoutRoomAreRefused) {
  kernels::KvLayout layout{.layers = 4, .kv_heads = 1, .head_dim = 8, .value_dim = 8};
  layout.side_bytes = 63;
  const Status small =
      RouteStore::create(RouteCapture::kExpertLayers, two_of_four(8), {.layout = layout}).status();
  EXPECT_THAT(message_of(small), HasSubstr("64 bytes in each KV block and the layout has 63"));
}

TEST(RouteLayers, GivenRowsComeFromEitherLayerAxis) {
  const RouteLayers layers = two_of_four(8);
  HostTensor experts(DType::kInt8, Shape{2, 2, 2});
  HostTensor all(DType::kInt16, Shape{2, 4, 2});
  const std::vector<int64_t> of_experts = {7, 3, 2, 6, -1, -1, 4, 5};
  const std::vector<int64_t> of_all = {0, 1, 7, 3, 0, 1, 2, 6, 0, 1, -1, -1, 0, 1, 4, 5};
  ASSERT_TRUE(write_integers(of_experts, &experts).ok());
  ASSERT_TRUE(write_integers(of_all, &all).ok());
  for (const HostTensor* given : {&experts, &all}) {
    std::vector<int32_t> rows(8, -7);
    copy_given_rows(*given, layers, 0, 2, rows.data());
    EXPECT_THAT(rows, ElementsAre(7, 3, 2, 6, -1, -1, 4, 5));
    rows.assign(8, -7);
    copy_given_rows(*given, layers, 1, 2, rows.data());
    EXPECT_THAT(rows, ElementsAre(-1, -1, 4, 5, -7, -7, -7, -7));
    rows.assign(8, -7);
    copy_given_rows(*given, layers, 5, 2, rows.data());
    EXPECT_THAT(rows, ElementsAre(-7, -7, -7, -7, -7, -7, -7, -7));
  }
}

}  // namespace
}  // namespace rlgen::engine
