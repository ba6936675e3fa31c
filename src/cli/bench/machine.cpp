#include "cli/bench/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "cli/version.h"

namespace rlgen::cli {
namespace {

// The value of the first line "key : value" of a file of /proc; empty where there is none.
std::string value_of(const std::string& path, std::string_view key) {
  const StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return "";
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const std::string_view line = std::string_view(*text).substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const size_t key_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.substr(0, key_end + 1) != key) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? "" : std::string(line.substr(value));
  }
  return "";
}

// "24576000 kB" in bytes.
int64_t bytes_of(const std::string& text) {
  int64_t kilobytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), kilobytes);
  return kilobytes * 1024;
}

std::string compiler_name() {
  const std::string version = __VERSION__;
  return version.empty() || version[0] < '0' || version[0] > '9' ? version : "GCC " + version;
}

}  // namespace

MachineDescription describe_machine(const MachineFiles& files) {
  MachineDescription machine;
  utsname system{};
  const bool known = ::uname(&system) == 0;
  machine.cpu = value_of(files.cpuinfo, "model name");
  if (machine.cpu.empty() && known) machine.cpu = system.machine;
  machine.cpus = usable_cpus();
  machine.caches = read_cache_sizes();
  machine.memory_bytes = bytes_of(value_of(files.meminfo, "MemTotal"));
  if (known) machine.kernel = fmt::format("{} {}", system.sysname, system.release);
  machine.compiler = compiler_name();
  machine.version = kVersion;
  return machine;
}

nlohmann::ordered_json to_json(const MachineDescription& machine) {
  return {{"cpu", machine.cpu},
          {"cpus", machine.cpus},
          {"l1_bytes", machine.caches.l1},
          {"l2_bytes", machine.caches.l2},
          {"l3_bytes", machine.caches.l3},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel},
          {"compiler", machine.compiler},
          {"version", machine.version}};
}

}  // namespace rlgen::cli
