#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace rlgen::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kNextLine = std::chrono::seconds(10);
constexpr int kBarWidth = 24;

}  // namespace

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string progress_text(const ProgressNumbers& numbers) {
  const double rate =
      numbers.seconds > 0.0 ? static_cast<double>(numbers.tokens) / numbers.seconds : 0.0;
  std::string text =
      fmt::format("{}/{} rollouts, {:.0f} tok/s, {} running, {} waiting", numbers.done,
                  numbers.total, rate, numbers.running, numbers.waiting);
  if (numbers.new_done > 0 && numbers.total > numbers.done) {
    const double each = numbers.seconds / static_cast<double>(numbers.new_done);
    text += fmt::format(", {} left",
                        duration_text(each * static_cast<double>(numbers.total - numbers.done)));
  }
  return text;
}

std::string progress_bar(const ProgressNumbers& numbers, int width) {
  const double share = numbers.total > 0
                           ? static_cast<double>(numbers.done) / static_cast<double>(numbers.total)
                           : 0.0;
  const auto filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * width);
  return fmt::format("[{}{}] {}", std::string(filled, '#'),
                     std::string(static_cast<size_t>(width) - filled, '.'), progress_text(numbers));
}

Progress::Progress(std::FILE* stream)
    : stream_(stream), terminal_(::isatty(fileno(stream)) == 1), last_(Clock::now()) {}

void Progress::show(const ProgressNumbers& numbers) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kNextLine))) return;
  last_ = now;
  if (!terminal_) {
    write(progress_text(numbers) + "\n");
    return;
  }
  write("\r\x1b[K" + progress_bar(numbers, kBarWidth));
  drawn_ = true;
}

// What cannot be written is let go, as in say().
void Progress::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fflush(stream_);
}

void Progress::clear() {
  if (!drawn_) return;
  write("\r\x1b[K");
  drawn_ = false;
}

}  // namespace rlgen::cli
