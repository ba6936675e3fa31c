#include "contract/batch/route_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "contract/routes/route_rows.h"

namespace rlgen {
namespace {

constexpr size_t kRowsNamed = 8;

Status check_routes_of(const Rollout& rollout, const RouteFacts& facts) {
  const RouteSpan& routes = rollout.routes;
  if (!routes.present()) {
    return absl::InternalError("routed_experts were to be recorded and are not there");
  }
  if (routes.first != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "routed_experts begin with token {}; a batch needs them from the first on", routes.first));
  }
  if (routes.layers == facts.layers && routes.top_k == facts.top_k) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("routed_experts has {} layers and top-{}, others have {} and top-{}",
                  routes.layers, routes.top_k, facts.layers, facts.top_k));
}

}  // namespace

Status lay_out_route_columns(std::span<const Rollout> rollouts, const RouteFacts& facts,
                             int64_t width, GenerationOutputSpec* batch) {
  HostTensor all(facts.dtype(),
                 Shape{static_cast<int64_t>(rollouts.size()), width, facts.layers, facts.top_k});
  auto out = all.bytes().begin();
  std::vector<int64_t> missing;
  std::vector<int64_t> expected;
  std::vector<int64_t> actual;
  for (size_t row = 0; row < rollouts.size(); ++row) {
    const Rollout& rollout = rollouts[row];
    const std::string name = fmt::format("row {}", row);
    RLGEN_RETURN_IF_ERROR(annotate(check_routes_of(rollout, facts), name));
    const auto length =
        static_cast<int64_t>(rollout.prompt_token_ids.size() + rollout.tokens.size());
    RouteCounts counts;
    const auto laid_out = lay_out_routes(rollout.routes.view(),
                                         {.valid_length = length,
                                          .padded_length = width,
                                          .dtype = facts.dtype(),
                                          .cached_tokens = rollout.finish.cached_tokens},
                                         &counts);
    if (!laid_out.ok()) return annotate(laid_out.status(), name);
    out = std::copy(laid_out->bytes().begin(), laid_out->bytes().end(), out);
    missing.push_back(counts.missing);
    expected.push_back(counts.expected);
    actual.push_back(counts.actual);
  }
  batch->routed_experts = std::move(all);
  batch->r3_routed_experts_missing_routes = HostTensor::of(missing);
  batch->r3_routed_experts_expected_routes = HostTensor::of(expected);
  batch->r3_routed_experts_actual_routes = HostTensor::of(actual);
  return absl::OkStatus();
}

std::string route_fallback_warning(const GenerationOutputSpec& batch) {
  if (!batch.r3_routed_experts_missing_routes.present()) return {};
  const auto rows = static_cast<size_t>(batch.r3_routed_experts_missing_routes.shape()[0]);
  const std::span<const int64_t> missing(batch.r3_routed_experts_missing_routes.as<int64_t>(),
                                         rows);
  const std::span<const int64_t> expected(batch.r3_routed_experts_expected_routes.as<int64_t>(),
                                          rows);
  const auto affected = std::ranges::count_if(missing, [](int64_t count) { return count > 0; });
  if (affected == 0) return {};
  std::vector<std::string> named;
  for (size_t row = 0; row < rows && named.size() < kRowsNamed; ++row) {
    if (missing[row] == 0) continue;
    named.push_back(fmt::format("{} ({} of {})", row, missing[row], expected[row]));
  }
  return fmt::format(
      "R3 router replay fallback: {} of {} samples lack {} of {} routes, where the trainer's "
      "router "
      "decides; samples {}{}",
      affected, rows, std::accumulate(missing.begin(), missing.end(), int64_t{0}),
      std::accumulate(expected.begin(), expected.end(), int64_t{0}), fmt::join(named, ", "),
      static_cast<size_t>(affected) > named.size() ? ", ..." : "");
}

}  // namespace rlgen
