#include "contract/config/disagg_config.h"

#include <fmt/format.h>

#include <array>
#include <cassert>
#include <utility>

namespace rlgen {
namespace {

constexpr int64_t kHighestPort = 65535;

}  // namespace

Status read_json(const JsonField& field, DisaggConfig* out) {
  DisaggConfig config;
  JsonObject object(field.value, field.name);
  object.take("enabled", &config.enabled);
  object.take("num_prefill_engines", &config.num_prefill_engines);
  object.take("num_decode_engines", &config.num_decode_engines);
  object.take("num_frontend_workers", &config.num_frontend_workers);
  object.take("frontend_tokenize", &config.frontend_tokenize);
  object.take("frontend_base_port", &config.frontend_base_port);
  RLGEN_RETURN_IF_ERROR(object.finish());
  const std::array<std::pair<const char*, int32_t>, 3> counts = {
      {{"num_prefill_engines", config.num_prefill_engines},
       {"num_decode_engines", config.num_decode_engines},
       {"num_frontend_workers", config.num_frontend_workers}}};
  for (const auto& [key, count] : counts) {
    if (count >= 1) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} is {}; it must be at least 1", object.name_of(key), count));
  }
  if (config.frontend_base_port < 1 || config.frontend_base_port > kHighestPort) {
    return absl::InvalidArgumentError(fmt::format("{} is {}; a port is from 1 to {}",
                                                  object.name_of("frontend_base_port"),
                                                  config.frontend_base_port, kHighestPort));
  }
  *out = config;
  return absl::OkStatus();
}

Status check_frontends(const DisaggConfig& config, int32_t num_replicas) {
  const int64_t frontends = int64_t{num_replicas} * config.num_frontend_workers;
  if (frontends > kMostFrontends) {
    return absl::InvalidArgumentError(fmt::format(
        "{} replicas with num_frontend_workers {} are {} front ends; at most {} have an id",
        num_replicas, config.num_frontend_workers, frontends, kMostFrontends));
  }
  const int64_t last = config.frontend_base_port + frontends - 1;
  if (last <= kHighestPort) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} front ends from frontend_base_port {} on need port {}; the highest is {}",
                  frontends, config.frontend_base_port, last, kHighestPort));
}

int32_t frontend_port(const DisaggConfig& config, int32_t replica, int32_t frontend) {
  assert(replica >= 0 && frontend >= 0 && frontend < config.num_frontend_workers);
  return config.frontend_base_port + replica * config.num_frontend_workers + frontend;
}

}  // namespace rlgen
