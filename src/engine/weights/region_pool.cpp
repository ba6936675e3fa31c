#include "engine/weights/region_pool.h"

#include <mutex>
#include <utility>

namespace rlgen::engine {

struct RegionPool::Shelf {
  std::mutex mutex;
  std::shared_ptr<Region> spare;
  bool keep = true;
};

RegionPool::RegionPool(int64_t size, RegionKind kind)
    : size_(size), kind_(kind), shelf_(std::make_shared<Shelf>()) {}

StatusOr<std::shared_ptr<Region>> RegionPool::lend() {
  std::shared_ptr<Region> owned;
  {
    std::lock_guard lock(shelf_->mutex);
    owned = std::move(shelf_->spare);
    shelf_->keep = true;
  }
  if (!owned) {
    RLGEN_ASSIGN_OR_RETURN(owned, Region::create(size_, kind_, "rlgen weights"));
  }
  Region* region = owned.get();
  const auto give_back = [owned = std::move(owned),
                          shelf = std::weak_ptr<Shelf>(shelf_)](Region*) mutable {
    if (const auto alive = shelf.lock()) {
      std::lock_guard lock(alive->mutex);
      if (!alive->spare && alive->keep) alive->spare = std::move(owned);
    }
  };
  return std::shared_ptr<Region>(region, give_back);
}

void RegionPool::release() {
  std::shared_ptr<Region> freed;
  std::lock_guard lock(shelf_->mutex);
  freed.swap(shelf_->spare);
  shelf_->keep = false;
}

bool RegionPool::has_spare() const {
  std::lock_guard lock(shelf_->mutex);
  return shelf_->spare != nullptr;
}

}  // namespace rlgen::engine
