#include "models/decoder.h"

#include <gtest/gtest.h>

namespace rlgen::models {
namespace {

TEST(RouteAxis, CountsTheSparseLayersAlone) {
  DecoderSpec spec;
  spec.layers = 4;
  spec.experts = {.count = 8, .top_k = 3};
  spec.layer.resize(4);
  spec.layer[1].sparse = spec.layer[3].sparse = true;
  const RouteAxis axis = route_axis(spec);
  EXPECT_EQ(axis.layers, 2);
  EXPECT_EQ(axis.top_k, 3);
  EXPECT_EQ(axis.experts, 8);
}

TEST(RouteAxis, IsNothingForADenseModel) {
  DecoderSpec spec;
  spec.layers = 2;
  spec.layer.resize(2);
  const RouteAxis axis = route_axis(spec);
  EXPECT_EQ(axis.layers, 0);
  EXPECT_EQ(axis.top_k, 0);
  EXPECT_EQ(axis.experts, 0);
}

}  // namespace
}  // namespace rlgen::models
