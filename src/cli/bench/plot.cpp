#include "cli/bench/plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace rlgen::cli {
namespace {

// Pixels.
constexpr int kLeftMargin = 170;
constexpr int kBar = 500;  // of 100 %
constexpr int kRightMargin = 190;
constexpr int kTop = 64;
constexpr int kLine = 22;
constexpr int kThick = 14;

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* color(const Figure& figure) {
  if (figure.limited_by == "arithmetic") return "#4269d0";
  if (figure.limited_by == "reading") return "#3ca951";
  return "#9c9c9c";
}

std::string bar(const Figure& figure, int y) {
  const int width = static_cast<int>(std::clamp(figure.fraction, 0.0, 1.0) * kBar);
  return fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n"
      "<text x=\"{}\" y=\"{}\">{:.0f}% ({:.4g} {})</text>\n",
      kLeftMargin - 8, y + kThick - 3, escape(figure.row), kLeftMargin, y, width, kThick,
      color(figure), kLeftMargin + width + 6, y + kThick - 3, 100.0 * figure.fraction, figure.value,
      escape(figure.unit));
}

std::string grid(int height) {
  std::string lines;
  for (int percent = 0; percent <= 100; percent += 25) {
    const int x = kLeftMargin + kBar * percent / 100;
    lines += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\" stroke=\"#dddddd\"/>\n"
        "<text x=\"{0}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#777777\">{4}%</text>\n",
        x, kTop - 4, height - 12, kTop - 8, percent);
  }
  return lines;
}

}  // namespace

std::string plot_svg(const BenchReport& report) {
  std::string bars;
  int y = kTop;
  for (const Figure& figure : report.figures) {
    if (!figure.skipped.empty() || figure.limit <= 0.0) continue;
    bars += bar(figure, y);
    y += kLine;
  }
  const int width = kLeftMargin + kBar + kRightMargin;
  const int height = y + 16;
  const std::string title = fmt::format("{}: share of what the machine allows", report.info.model);
  const std::string machine =
      fmt::format("{}, {}, {} threads; blue: arithmetic is the limit, green: reading",
                  report.machine.cpu, report.info.isa, report.info.num_threads);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"20\" font-size=\"15\">{2}</text>\n"
      "<text x=\"10\" y=\"38\" fill=\"#555555\">{3}</text>\n{4}{5}</svg>\n",
      width, height, escape(title), escape(machine), grid(height), bars);
}

}  // namespace rlgen::cli
