#include "refit/ipc_endpoint.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>

namespace rlgen::refit {
namespace {

Status check_name(std::string_view what, std::string_view name) {
  const bool sound = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; use letters, digits, '.', '_' and '-', so that it can name a socket",
                  what, name));
}

}  // namespace

StatusOr<std::string> ipc_endpoint(std::string_view folder, std::string_view run,
                                   std::string_view shard) {
  RLGEN_RETURN_IF_ERROR(check_name("run", run));
  RLGEN_RETURN_IF_ERROR(check_name("shard", shard));
  const std::string path = fmt::format("{}/rlgen-{}-{}.sock", folder, run, shard);
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kLongest) return "ipc://" + path;
  return absl::InvalidArgumentError(
      fmt::format("{} has {} characters and a local socket at most {}; use a shorter folder or run",
                  path, path.size(), kLongest));
}

}  // namespace rlgen::refit
