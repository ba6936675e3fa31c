#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "engine/kv/prefix_cache.h"
#include "engine/kv/test_blocks.h"

namespace rlgen::engine {
namespace {

// The contents of a chain of blocks, a number for each.
using Path = std::vector<int32_t>;

struct Holder {
  Path path;
  std::vector<KvBlock> blocks;
  std::vector<uint64_t> entries;
};

// A cache with its holders, and what a cache of that kind should know: how often each path is held
// and in which order the others were given back.
struct CacheWorld {
  explicit CacheWorld(int blocks) : allocator(test::make_allocator(blocks)), cache(&allocator) {}

  PrefixCache::Hit find(const Path& path) const {
    PrefixCache::Hit hit;
    for (const int32_t content : path) {
      const std::vector<int32_t> ids(16, content);
      hit = cache.find({.serial = 1, .parent = hit.entry, .ids = ids});
      if (hit.entry == 0) break;
    }
    return hit;
  }

  BlockAllocator allocator;
  PrefixCache cache;
  std::vector<Holder> holders;
  std::map<Path, int> held;
  std::vector<Path> idle;
};

void evict(CacheWorld& world) {
  if (world.idle.empty()) {
    RC_ASSERT(!world.cache.evict());
    return;
  }
  const Path oldest = world.idle.front();
  RC_ASSERT(world.find(oldest).entry != 0);
  RC_ASSERT(world.cache.evict());
  RC_ASSERT(world.find(oldest).entry == 0);
  world.idle.erase(world.idle.begin());
}

// Takes what is there of the next block of the path, or makes it.
bool extend(CacheWorld& world, Holder* holder, int32_t content) {
  Path path = holder->path;
  path.push_back(content);
  const uint64_t parent = holder->entries.empty() ? 0 : holder->entries.back();
  const std::vector<int32_t> ids(16, content);
  const BlockKeyView key{.serial = 1, .parent = parent, .ids = ids};
  PrefixCache::Hit hit = world.cache.find(key);
  const bool known = world.held[path] > 0 || std::ranges::count(world.idle, path) > 0;
  RC_ASSERT((hit.entry != 0) == known);
  if (known) {
    holder->blocks.push_back(world.allocator.share(hit.block));
    std::erase(world.idle, path);
  } else {
    if (world.allocator.free() == 0) evict(world);
    KvBlock block = world.allocator.allocate();
    if (!block) return false;
    hit = world.cache.publish(key, block.id());
    RC_ASSERT(hit.block == block.id());
    holder->blocks.push_back(std::move(block));
  }
  holder->entries.push_back(hit.entry);
  holder->path = path;
  ++world.held[path];
  return true;
}

void hold(CacheWorld& world) {
  const auto wanted = *rc::gen::container<Path>(rc::gen::inRange(0, 3));
  Holder holder;
  for (size_t i = 0; i < std::min<size_t>(wanted.size(), 5); ++i) {
    if (!extend(world, &holder, wanted[i])) break;
  }
  world.holders.push_back(std::move(holder));
}

void release(CacheWorld& world) {
  if (world.holders.empty()) return;
  const auto chosen = *rc::gen::inRange<size_t>(0, world.holders.size());
  Holder& holder = world.holders[chosen];
  while (!holder.blocks.empty()) {
    holder.blocks.pop_back();
    if (--world.held[holder.path] == 0) world.idle.push_back(holder.path);
    holder.path.pop_back();
  }
  world.holders.erase(world.holders.begin() + ptrdiff_t(chosen));
}

void check(const CacheWorld& world) {
  for (const Status& status : {world.allocator.audit(), world.cache.audit()}) {
    if (!status.ok()) RC_FAIL(message_of(status));
  }
  int64_t held = 0;
  for (const auto& [path, count] : world.held) held += count > 0 ? 1 : 0;
  RC_ASSERT(world.cache.size() == held + int64_t(world.idle.size()));
  RC_ASSERT(world.allocator.idle() == int32_t(world.idle.size()));
  RC_ASSERT(world.allocator.free() + world.cache.size() == world.allocator.total());
}

RC_GTEST_PROP(PrefixCacheProperty, IsTheModelUnderEveryOrderOfOperations, ()) {
  CacheWorld world(*rc::gen::inRange(1, 12));
  for (int i = 0; i < 120; ++i) {
    switch (*rc::gen::inRange(0, 7)) {
      case 0:
        evict(world);
        break;
      case 1:
      case 2:
      case 3:
        release(world);
        break;
      default:
        hold(world);
    }
    check(world);
  }
  while (!world.holders.empty()) release(world);
  check(world);
  if (*rc::gen::inRange(0, 2) == 0) {
    world.cache.clear();
    world.idle.clear();
  }
  while (!world.idle.empty()) evict(world);
  RC_ASSERT(world.allocator.free() == world.allocator.total());
}

}  // namespace
}  // namespace rlgen::engine
