#include "cli/bench/figure.h"

#include <gtest/gtest.h>

namespace rlgen::cli {
namespace {

TEST(BenchFigure, RatesAreBetterWhenTheyAreMoreAndTimesWhenTheyAreLess) {
  EXPECT_EQ(improvement("tok/s", 10.0, 20.0), 2.0);
  EXPECT_EQ(improvement("GB/s", 20.0, 10.0), 0.5);
  EXPECT_EQ(improvement("ms", 20.0, 10.0), 2.0);
  EXPECT_EQ(improvement("MB", 10.0, 20.0), 0.5);
}

TEST(BenchFigure, TheFractionIsOneAtTheLimit) {
  Figure rate = {.row = "a", .value = 50.0, .unit = "tok/s"};
  set_limit(&rate, 100.0, "reading");
  EXPECT_EQ(rate.fraction, 0.5);
  EXPECT_EQ(rate.limited_by, "reading");
  Figure time = {.row = "b", .value = 8.0, .unit = "ms"};
  set_limit(&time, 2.0, "reading");
  EXPECT_EQ(time.fraction, 0.25);
}

TEST(BenchFigure, KeepsTheBestRunWhole) {
  Figure best = {.row = "a"};
  keep_better({.row = "a", .value = 10.0, .unit = "tok/s", .fraction = 0.9}, &best);
  EXPECT_EQ(best.runs, 1);
  keep_better({.row = "a", .value = 12.0, .unit = "tok/s", .fraction = 0.5}, &best);
  keep_better({.row = "a", .value = 11.0, .unit = "tok/s", .fraction = 0.7}, &best);
  EXPECT_EQ(best.value, 12.0);
  EXPECT_EQ(best.fraction, 0.5);
  EXPECT_EQ(best.runs, 3);
  Figure shortest = {.row = "b"};
  for (const double value : {3.0, 2.0, 4.0}) {
    keep_better({.row = "b", .value = value, .unit = "ms"}, &shortest);
  }
  EXPECT_EQ(shortest.value, 2.0);
}

TEST(BenchFigure, WhatStandsForAllRunsIsReplaced) {
  Figure figure = {.row = "a"};
  for (const double value : {12.0, 10.0}) {
    keep_better({.row = "a", .value = value, .unit = "tok/s", .of_all_runs = true}, &figure);
  }
  EXPECT_EQ(figure.value, 10.0);
  EXPECT_EQ(figure.runs, 2);
  keep_better({.row = "a", .unit = "tok/s", .skipped = "no room"}, &figure);
  EXPECT_EQ(figure.skipped, "no room");
}

}  // namespace
}  // namespace rlgen::cli
