#include <algorithm>

#include "engine/core.h"

// What a step does for the experts that rows use: nothing where none are recorded or given.
namespace rlgen::engine {

void EngineCore::place_routes(const Plan& plan) {
  const size_t size = batch_.token_ids.size() * size_t(route_layers_.row_size());
  batch_.routes = nullptr;
  batch_.given_routes = nullptr;
  if (routes_.on()) {
    if (route_rows_.size() < size) route_rows_.resize(size);
    batch_.routes = route_rows_.data();
  }
  const auto gives = [](const PlannedRows& planned) {
    return planned.sequence->request.routed_experts != nullptr;
  };
  if (std::none_of(plan.begin(), plan.end(), gives)) return;
  given_rows_.assign(size, -1);
  int32_t* row = given_rows_.data();
  for (const PlannedRows& planned : plan) {
    if (gives(planned)) {
      copy_given_rows(*planned.sequence->request.routed_experts, route_layers_,
                      planned.sequence->computed, planned.rows, row);
    }
    row += int64_t(planned.rows) * route_layers_.row_size();
  }
  batch_.given_routes = given_rows_.data();
}

void EngineCore::store_routes() {
  if (batch_.routes == nullptr) return;
  const int32_t block_size = allocator_.block_size();
  const int32_t* row = batch_.routes;
  for (const models::BatchSequence& placed : batch_.sequences) {
    const int64_t end = placed.first_position + placed.rows;
    for (int64_t position = placed.first_position; position < end; ++position) {
      const int32_t block = placed.block_table[size_t(position / block_size)];
      routes_.store(block, int32_t(position % block_size), row);
      row += route_layers_.row_size();
    }
  }
}

void EngineCore::deliver_routes(Sequence* sequence, SequenceEvent* event) const {
  if (!routes_.on() || sequence->computed <= sequence->routes_given) return;
  event->routes = empty_route_span(routes_.facts(), sequence->routes_given);
  const int32_t block_size = allocator_.block_size();
  int32_t position = sequence->routes_given;
  while (position < sequence->computed) {
    const int32_t slot = position % block_size;
    const int32_t rows = std::min(block_size - slot, sequence->computed - position);
    routes_.append(sequence->block_table[size_t(position / block_size)], slot, rows,
                   &event->routes);
    position += rows;
  }
  sequence->routes_given = position;
}

}  // namespace rlgen::engine
