#include "cli/bench/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/bench/compare.h"
#include "cli/bench/plot.h"

namespace rlgen::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

BenchReport report_of(double decode, double sampling) {
  BenchReport report;
  report.machine.cpu = "Fast <One>";
  report.info.model = "a model";
  report.info.isa = "avx2";
  report.info.num_threads = 2;
  report.limits = {.flops = 5e10, .read_bytes = 1e10, .buffer_bytes = 1000};
  Figure rate = {.row = "decode/1", .value = decode, .unit = "tok/s", .runs = 3};
  set_limit(&rate, 100.0, "reading");
  rate.details = {{"step_ms", 12.5}};
  Figure time = {.row = "sampling/top-p", .value = sampling, .unit = "ms", .runs = 2};
  set_limit(&time, 1.0, "reading");
  Figure absent = {.row = "attention/32k", .skipped = "the context has 128 positions"};
  Figure free = {.row = "mixed", .value = 5.0, .unit = "tok/s", .runs = 1};
  report.figures = {rate, time, absent, free};
  return report;
}

TEST(BenchReport, TextNamesEveryRowAndWhatWasLeftOut) {
  const std::string text = report_text(report_of(80.0, 2.0));
  EXPECT_THAT(text, HasSubstr("FMA peak           50.0 GFLOP/s"));
  EXPECT_THAT(text, HasSubstr("80%"));
  EXPECT_THAT(text, HasSubstr("step_ms 12.5"));
  EXPECT_THAT(text, HasSubstr("not measured: the context has 128 positions"));
}

TEST(BenchReport, JsonReadsBack) {
  const auto json = parse_report(report_json(report_of(80.0, 2.0)).dump(), "here");
  ASSERT_TRUE(json.ok()) << json.status();
  const auto& rows = json->at("rows");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["fraction"], 0.8);
  EXPECT_EQ(rows[0]["details"]["step_ms"], 12.5);
  EXPECT_EQ(rows[1]["fraction"], 0.5);
  EXPECT_EQ(rows[2]["skipped"], "the context has 128 positions");
  EXPECT_FALSE(rows[3].contains("fraction"));
}

TEST(BenchCompare, RatiosSayHowMuchBetter) {
  const auto before = report_json(report_of(40.0, 2.0));
  const std::string text = compare_text(before, report_json(report_of(80.0, 4.0)));
  EXPECT_THAT(text, HasSubstr("2.00x    40%   80%"));
  EXPECT_THAT(text, HasSubstr("0.50x    50%   25%"));
  EXPECT_THAT(text, Not(HasSubstr("warning")));
}

TEST(BenchCompare, WarnsOfAnotherMachineAndNamesRowsOfOneSide) {
  BenchReport old = report_of(40.0, 2.0);
  old.machine.cpu = "Slow";
  old.machine.caches.l3 = 7;
  old.info.num_threads = 1;
  old.figures[0].row = "decode/2";
  const std::string text = compare_text(report_json(old), report_json(report_of(80.0, 4.0)));
  EXPECT_THAT(text, HasSubstr("warning: machine cpu was \"Slow\" and is \"Fast <One>\""));
  EXPECT_THAT(text, HasSubstr("warning: machine l3_bytes was 7 and is 0"));
  EXPECT_THAT(text, HasSubstr("warning: threads was 1 and is 2"));
  EXPECT_THAT(text, testing::ContainsRegex("decode/1 +- +80.00\n"));
  EXPECT_THAT(text, testing::ContainsRegex("decode/2 +40.00 +-\n"));
}

TEST(BenchCompare, RefusesWhatIsNoReport) {
  for (const char* text :
       {"", "[]", "{}", R"({"schema": 1, "machine": {}, "rows": []})",
        R"({"schema": 2, "rows": []})", R"({"schema": 2, "machine": {}})",
        R"({"schema": 2, "machine": {}, "rows": [{"row": "a"}]})",
        R"({"schema": 2, "machine": {}, "rows": [{"row": "a", "value": "1"}]})"}) {
    const auto report = parse_report(text, "old.json");
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_THAT(std::string(report.status().message()), HasSubstr("old.json")) << text;
  }
  EXPECT_TRUE(parse_report(R"({"schema": 2, "machine": {}, "rows": []})", "x").ok());
}

TEST(BenchPlot, ABarForEachRowWithALimit) {
  const std::string svg = plot_svg(report_of(80.0, 2.0));
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("width=\"400\" height=\"14\""));
  EXPECT_THAT(svg, HasSubstr("width=\"250\" height=\"14\""));
  EXPECT_THAT(svg, HasSubstr("Fast &lt;One&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("attention/32k")));
  EXPECT_THAT(svg, Not(HasSubstr("mixed")));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace rlgen::cli
