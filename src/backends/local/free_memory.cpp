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

// File names and keys of one version of the control groups.
struct GroupFiles {
  std::string_view limit, use, inactive, active;
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file", "total_active_file"};

// The number after `key` at the beginning of a line; 0 where there is none.
int64_t field_of(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const size_t end = at + key.size();
    const bool whole = (at == 0 || text[at - 1] == '\n') && end < text.size() && text[end] == ' ';
    if (whole) return parse_number(text.substr(end)).value_or(0);
  }
  return 0;
}

// Cached file pages count as use but are given back when memory is short.
std::optional<MachineMemory> room_in(const std::string& folder, const GroupFiles& names) {
  const auto limit = read_number(fmt::format("{}/{}", folder, names.limit));
  const auto use = read_number(fmt::format("{}/{}", folder, names.use));
  if (!limit || !use) return std::nullopt;
  const auto stat = read_file(folder + "/memory.stat");
  const std::string_view text = stat.ok() ? std::string_view(*stat) : std::string_view();
  const int64_t cached = field_of(text, names.inactive) + field_of(text, names.active);
  return MachineMemory{.total = *limit,
                       .free = std::clamp<int64_t>(*limit - *use + cached, 0, *limit)};
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The tightest room from `path` up to the root of a hierarchy.
void narrow(MachineMemory* room, const std::string& root, std::string path,
            const GroupFiles& names) {
  if (path == "/") path.clear();
  while (true) {
    if (const auto here = room_in(root + path, names)) {
      room->total = std::min(room->total, here->total);
      room->free = std::min(room->free, here->free);
    }
    if (path.empty()) return;
    path = parent_of(path);
  }
}

// Lines of /proc/self/cgroup: "0::/a/b" (version 2) or "5:memory:/a/b" (version 1).
void narrow_by_cgroups(const MemoryFiles& files, MachineMemory* room) {
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
    if (controllers.empty()) narrow(room, files.cgroup_root, path, kVersion2);
    if (controllers.find("memory") != std::string_view::npos) {
      narrow(room, files.cgroup_root + "/memory", path, kVersion1);
    }
  }
}

// The kilobytes of one line of /proc/meminfo, in bytes.
StatusOr<int64_t> bytes_in(const std::string& meminfo, std::string_view key,
                           const std::string& path) {
  const size_t at = meminfo.find(key);
  const auto kilobytes = at == std::string::npos
                             ? std::nullopt
                             : parse_number(std::string_view(meminfo).substr(at + key.size()));
  if (kilobytes) return *kilobytes * 1024;
  return absl::NotFoundError(fmt::format("{} has no line {}", path, key));
}

}  // namespace

StatusOr<MachineMemory> machine_memory(const MemoryFiles& files) {
  RLGEN_ASSIGN_OR_RETURN(const std::string meminfo, read_file(files.meminfo));
  MachineMemory memory;
  RLGEN_ASSIGN_OR_RETURN(memory.total, bytes_in(meminfo, "MemTotal:", files.meminfo));
  RLGEN_ASSIGN_OR_RETURN(memory.free, bytes_in(meminfo, "MemAvailable:", files.meminfo));
  narrow_by_cgroups(files, &memory);
  return memory;
}

StatusOr<int64_t> free_memory(const MemoryFiles& files) {
  RLGEN_ASSIGN_OR_RETURN(const MachineMemory memory, machine_memory(files));
  return memory.free;
}

}  // namespace rlgen::backends
