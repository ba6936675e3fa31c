#include "base/cpu.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <thread>

#include "base/file.h"

namespace rlgen {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string read_line(const std::string& path) {
  const auto content = read_file(path);
  return content.ok() ? std::string(trim(*content)) : std::string();
}

std::optional<double> quota(std::string_view microseconds, std::string_view period) {
  const auto allowed = parse_number(microseconds);
  const auto length = parse_number(period);
  if (!allowed || !length || *allowed <= 0 || *length <= 0) return std::nullopt;
  return static_cast<double>(*allowed) / static_cast<double>(*length);
}

std::optional<double> limit_of_folder(const std::string& folder) {
  const std::string line = read_line(folder + "/cpu.max");
  const std::size_t space = line.find(' ');
  if (space != std::string::npos) {
    return quota(std::string_view(line).substr(0, space), std::string_view(line).substr(space + 1));
  }
  return quota(read_line(folder + "/cpu.cfs_quota_us"), read_line(folder + "/cpu.cfs_period_us"));
}

// Keeps the tighter of the limit so far and those of `group` and its parents below `mount`.
void tighten(const std::string& mount, std::string group, std::optional<double>* limit) {
  while (true) {
    const auto here = limit_of_folder(mount + group);
    if (here && (!*limit || *here < **limit)) *limit = here;
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

bool lists_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

std::int64_t parse_cache_size(std::string_view text) {
  std::int64_t unit = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    unit = text.back() == 'K' ? 1024 : 1024 * 1024;
    text.remove_suffix(1);
  }
  return parse_number(text).value_or(0) * unit;
}

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

#if defined(__x86_64__)
// Clang does not know "f16c" in __builtin_cpu_supports.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// AMX with tiles and products of bfloat16, leaf 7; neither compiler has names for all of it.
bool has_amx_bf16() {
  constexpr unsigned kBf16AndTile = 1u << 22 | 1u << 24;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kBf16AndTile) == kBf16AndTile;
}

// Linux keeps the registers' 8 KiB of state from processes that have not asked for it.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  features.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  features.avx512 = features.avx2_fma && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq");
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
  features.amx_bf16 = features.avx512_bf16 && has_amx_bf16() && may_use_tiles();
#elif defined(__aarch64__)
  features.neon = true;
#endif
  return features;
}

CacheSizes read_cache_sizes(const std::string& cpu_folder) {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = cpu_folder + "/cache/index" + std::to_string(index);
    if (read_line(folder + "/type") == "Instruction") continue;
    const std::string level = read_line(folder + "/level");
    const std::int64_t size = parse_cache_size(read_line(folder + "/size"));
    if (level == "1") sizes.l1 = size;
    if (level == "2") sizes.l2 = size;
    if (level == "3") sizes.l3 = size;
  }
  return sizes;
}

std::optional<double> cgroup_cpu_limit(const std::string& self_cgroup,
                                       const std::string& cgroup_root) {
  std::optional<double> limit;
  const auto content = read_file(self_cgroup);
  if (!content.ok()) return limit;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      tighten(cgroup_root, group, &limit);
    } else if (lists_cpu(controllers)) {
      tighten(cgroup_root + "/" + controllers, group, &limit);
    }
  }
  return limit;
}

int machine_cpus() {
  return std::max({1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), usable_cpus()});
}

int usable_cpus() {
  int cpus = std::max(1, affinity_cpus());
  if (const auto limit = cgroup_cpu_limit()) {
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(*limit))));
  }
  return cpus;
}

CpuInfo detect_cpu() { return {usable_cpus(), detect_cpu_features(), read_cache_sizes()}; }

}  // namespace rlgen
