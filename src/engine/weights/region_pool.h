#pragma once

#include <memory>

#include "base/status.h"
#include "tensor/region.h"

namespace rlgen::engine {

// Lends regions of one size and keeps one that came back, since the first touch of fresh pages
// costs several times a copy. A lent region returns when its last holder lets go, whatever thread
// that is; it then keeps its old bytes. Thread-safe; may die before the regions it lent.
class RegionPool {
 public:
  RegionPool(int64_t size, RegionKind kind);

  // A region that nobody else holds: the spare one, or a fresh, zeroed one. Errors:
  // Region::create's.
  StatusOr<std::shared_ptr<Region>> lend();

  // Frees the spare region, and keeps none of those that come back until the next one is lent.
  void release();

  int64_t size() const { return size_; }
  bool has_spare() const;

 private:
  struct Shelf;
  int64_t size_;
  RegionKind kind_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace rlgen::engine
