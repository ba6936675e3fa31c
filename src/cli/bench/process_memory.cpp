#include "cli/bench/process_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace rlgen::cli {
namespace {

// The number of kilobytes behind `key`, in bytes.
std::optional<int64_t> find_bytes(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t begin = text.find_first_of("0123456789", at + key.size());
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t kilobytes = 0;
  std::from_chars(text.data() + begin, text.data() + text.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

StatusOr<ProcessMemory> read_process_memory(const std::string& status_file) {
  RLGEN_ASSIGN_OR_RETURN(const std::string text, read_file(status_file));
  const auto resident = find_bytes(text, "VmRSS:");
  const auto peak = find_bytes(text, "VmHWM:");
  if (!resident || !peak) {
    return absl::NotFoundError(fmt::format("{} has no VmRSS and VmHWM", status_file));
  }
  return ProcessMemory{.resident = *resident, .peak = *peak};
}

bool reset_peak_memory() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "w");
  if (file == nullptr) return false;
  const bool written = std::fputs("5\n", file) >= 0;
  return std::fclose(file) == 0 && written;
}

}  // namespace rlgen::cli
