#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "contract/routes/route_span.h"
#include "engine/routes/route_layers.h"
#include "kernels/kv_layout.h"

namespace rlgen::engine {

// Which routes an engine records.
enum class RouteCapture { kOff, kExpertLayers, kAllLayers };

// How the routes look that `capture` records of a model.
RouteFacts route_facts(RouteCapture capture, const RouteLayers& layers);

// KvLayout::side_bytes that they take.
size_t route_bytes(const RouteFacts& facts, int32_t block_size);

// The experts that rows used, in the side bytes of the KV blocks: each slot of a block has a row of
// routes, which is shared, kept and lost with the slot's keys and values. A block of the prefix
// cache was full when it was published, so every row of it is there. One thread.
class RouteStore {
 public:
  RouteStore() = default;  // records nothing

  // Rows in the blocks of `kv`, whose memory outlives the store. `capture` is not kOff.
  // kInvalidArgument for a model without experts and for blocks without room.
  static StatusOr<RouteStore> create(RouteCapture capture, const RouteLayers& layers,
                                     const kernels::KvCacheView& kv);

  bool on() const { return facts_.recorded(); }
  const RouteFacts& facts() const { return facts_; }

  // Keeps a row of the forward pass, [expert layers, top_k].
  void store(int32_t block, int32_t slot, const int32_t* ids);
  // Appends `rows` rows that lie in one block to `*span`, which has this store's facts.
  void append(int32_t block, int32_t slot, int32_t rows, RouteSpan* span) const;

 private:
  std::byte* row(int32_t block, int32_t slot) const;

  RouteFacts facts_;
  std::vector<int32_t>
      places_;  // by layer of the axis: its place in the forward pass's rows, or -1
  kernels::KvCacheView kv_;
  size_t row_bytes_ = 0;
};

}  // namespace rlgen::engine
