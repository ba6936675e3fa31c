#include "backends/local/free_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace rlgen::backends {
namespace {

std::optional<int64_t> parse_number(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// "max", a missing file and version 1's huge default all mean no limit.
std::optional<int64_t> read_number(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() ? parse_number(*text) : std::nullopt;
}

std::optional<int64_t> room_in(const std::string& folder, std::string_view limit_file,
                               std::string_view use_file) {
  const auto limit = read_number(fmt::format("{}/{}", folder, limit_file));
  const auto use = read_number(fmt::format("{}/{}", folder, use_file));
  if (!limit || !use) return std::nullopt;
  return std::max<int64_t>(0, *limit - *use);
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The tightest room from `path` up to the root of a hierarchy.
void narrow(int64_t* room, const std::string& root, std::string path, std::string_view limit_file,
            std::string_view use_file) {
  if (path == "/") path.clear();
  while (true) {
    if (const auto here = room_in(root + path, limit_file, use_file))
      *room = std::min(*room, *here);
    if (path.empty()) return;
    path = parent_of(path);
  }
}

// Lines of /proc/self/cgroup: "0::/a/b" (version 2) or "5:memory:/a/b" (version 1).
void narrow_by_cgroups(const MemoryFiles& files, int64_t* room) {
  const auto text = read_file(files.self_cgroup);
  if (!text.ok()) return;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) narrow(room, files.cgroup_root, path, "memory.max", "memory.current");
    if (controllers.find("memory") != std::string_view::npos) {
      narrow(room, files.cgroup_root + "/memory", path, "memory.limit_in_bytes",
             "memory.usage_in_bytes");
    }
  }
}

}  // namespace

StatusOr<int64_t> free_memory(const MemoryFiles& files) {
  RLGEN_ASSIGN_OR_RETURN(const std::string meminfo, read_file(files.meminfo));
  constexpr std::string_view kKey = "MemAvailable:";
  const size_t at = meminfo.find(kKey);
  const auto kilobytes = at == std::string::npos
                             ? std::nullopt
                             : parse_number(std::string_view(meminfo).substr(at + kKey.size()));
  if (!kilobytes) {
    return absl::NotFoundError(fmt::format("{} has no line MemAvailable", files.meminfo));
  }
  int64_t room = *kilobytes * 1024;
  narrow_by_cgroups(files, &room);
  return room;
}

}  // namespace rlgen::backends
