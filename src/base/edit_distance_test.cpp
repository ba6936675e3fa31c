#include "base/edit_distance.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace rlgen {
namespace {

TEST(EditDistance, CountsSingleSteps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("top_k", "top_k"), 0u);
  EXPECT_EQ(edit_distance("top_k", "topk"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);
}

TEST(Suggest, NamesTheNearest) {
  constexpr std::array<std::string_view, 3> kNames = {"top_k", "top_p", "temperature"};
  EXPECT_EQ(suggest("topk", kNames), ", did you mean \"top_k\"?");
  EXPECT_EQ(suggest("temprature", kNames), ", did you mean \"temperature\"?");
  EXPECT_EQ(suggest("something", kNames), "");
}

TEST(Suggest, TakesAnyRangeOfStrings) {
  EXPECT_EQ(suggest("sed", std::vector<std::string>{"seed"}), ", did you mean \"seed\"?");
  EXPECT_EQ(suggest("seed", std::vector<std::string>{}), "");
  EXPECT_EQ(suggest("", std::vector<std::string>{"seed"}), "");
}

}  // namespace
}  // namespace rlgen
