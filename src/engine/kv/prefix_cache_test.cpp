#include "engine/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/kv/test_blocks.h"

namespace rlgen::engine {
namespace {

using test::make_allocator;

std::vector<int32_t> ids_from(int32_t first) {
  std::vector<int32_t> ids(16);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

TEST(PrefixCache, FindsABlockByEveryFieldOfItsKey) {
  BlockAllocator allocator = make_allocator(4);
  PrefixCache cache(&allocator);
  const std::vector<int32_t> ids = ids_from(3);
  const BlockKeyView key{.serial = 1, .cache_salt = "s", .parent = 0, .ids = ids};
  const KvBlock block = allocator.allocate();
  const auto hit = cache.publish(key, block.id());
  EXPECT_EQ(cache.find(key).block, block.id());
  EXPECT_EQ(cache.find(key).entry, hit.entry);
  BlockKeyView other = key;
  other.serial = 2;
  EXPECT_EQ(cache.find(other).entry, 0u);
  other = key;
  other.adapter_slot = 0;
  EXPECT_EQ(cache.find(other).entry, 0u);
  other = key;
  other.cache_salt = "";
  EXPECT_EQ(cache.find(other).entry, 0u);
  other = key;
  other.parent = hit.entry;
  EXPECT_EQ(cache.find(other).entry, 0u);
  EXPECT_TRUE(cache.audit().ok());
}

TEST(PrefixCache, FB059_AdapterAndSaltAreFieldsOfTheirOwn) {
  const std::vector<int32_t> ids = ids_from(0);
  const BlockKeyView adapter{.serial = 1, .adapter_slot = '0', .cache_salt = "", .ids = ids};
  const BlockKeyView salt{.serial = 1, .adapter_slot = -1, .cache_salt = "0", .ids = ids};
  EXPECT_FALSE(same_key(adapter, salt));
  EXPECT_NE(hash_key(adapter), hash_key(salt));
}

TEST(PrefixCache, FB060_TheHashCoversEveryIdTheLastOneToo) {
  const std::vector<int32_t> ids = ids_from(5);
  const BlockKeyView key{.serial = 1, .ids = ids};
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> changed = ids;
    ++changed[i];
    const BlockKeyView other{.serial = 1, .ids = changed};
    EXPECT_NE(hash_key(key), hash_key(other)) << i;
    EXPECT_FALSE(same_key(key, other)) << i;
  }
}

TEST(PrefixCache, EqualHashesAreNotEnough) {
  BlockAllocator allocator = make_allocator(4);
  PrefixCache cache(&allocator, [](const BlockKeyView&) -> uint64_t { return 42; });
  const KvBlock first = allocator.allocate();
  const KvBlock second = allocator.allocate();
  const std::vector<int32_t> a = ids_from(1);
  std::vector<int32_t> b = a;
  b.back() = 99;
  cache.publish({.serial = 1, .ids = a}, first.id());
  EXPECT_EQ(cache.find({.serial = 1, .ids = b}).entry, 0u);
  cache.publish({.serial = 1, .ids = b}, second.id());
  EXPECT_EQ(cache.find({.serial = 1, .ids = a}).block, first.id());
  EXPECT_EQ(cache.find({.serial = 1, .ids = b}).block, second.id());
  EXPECT_EQ(cache.find({.serial = 2, .ids = a}).entry, 0u);
  EXPECT_TRUE(cache.audit().ok());
}

TEST(PrefixCache, TheSecondBlockOfOneContentGivesWay) {
  BlockAllocator allocator = make_allocator(4);
  PrefixCache cache(&allocator);
  const std::vector<int32_t> ids = ids_from(1);
  const KvBlock first = allocator.allocate();
  KvBlock second = allocator.allocate();
  cache.publish({.serial = 1, .ids = ids}, first.id());
  const auto hit = cache.publish({.serial = 1, .ids = ids}, second.id());
  EXPECT_EQ(hit.block, first.id());
  second = allocator.share(hit.block);
  EXPECT_EQ(first.shares(), 2);
  EXPECT_EQ(allocator.free(), 3);
  EXPECT_EQ(cache.size(), 1);
}

TEST(PrefixCache, EvictsWhatHasBeenIdleForLongestAndNothingThatIsHeld) {
  BlockAllocator allocator = make_allocator(3);
  PrefixCache cache(&allocator);
  std::vector<std::vector<int32_t>> ids;
  std::vector<KvBlock> held;
  for (int32_t i = 0; i < 3; ++i) {
    ids.push_back(ids_from(100 * i));
    held.push_back(allocator.allocate());
    cache.publish({.serial = 1, .ids = ids.back()}, held.back().id());
  }
  EXPECT_FALSE(cache.evict());
  held[1] = {};
  held[0] = {};
  EXPECT_EQ(allocator.idle(), 2);
  EXPECT_EQ(allocator.free(), 0);
  held[1] = allocator.share(cache.find({.serial = 1, .ids = ids[1]}).block);
  held[1] = {};  // the younger of the two now
  EXPECT_TRUE(cache.evict());
  EXPECT_EQ(cache.find({.serial = 1, .ids = ids[0]}).entry, 0u);
  EXPECT_NE(cache.find({.serial = 1, .ids = ids[1]}).entry, 0u);
  EXPECT_TRUE(cache.evict());
  EXPECT_FALSE(cache.evict());
  EXPECT_EQ(allocator.free(), 2);
  EXPECT_EQ(cache.evictions(), 2);
  EXPECT_NE(cache.find({.serial = 1, .ids = ids[2]}).entry, 0u);
  EXPECT_TRUE(cache.audit().ok());
  EXPECT_TRUE(allocator.audit().ok());
}

TEST(PrefixCache, ClearLeavesHeldBlocksToTheirHolders) {
  BlockAllocator allocator = make_allocator(2);
  PrefixCache cache(&allocator);
  const std::vector<int32_t> a = ids_from(1);
  const std::vector<int32_t> b = ids_from(2);
  KvBlock held = allocator.allocate();
  cache.publish({.serial = 1, .ids = a}, held.id());
  cache.publish({.serial = 1, .ids = b}, allocator.allocate().id());
  EXPECT_EQ(allocator.idle(), 1);
  cache.clear();
  EXPECT_EQ(cache.find({.serial = 1, .ids = a}).entry, 0u);
  EXPECT_EQ(held.shares(), 1);
  held = {};
  EXPECT_EQ(allocator.free(), 2);
  EXPECT_TRUE(cache.audit().ok());
  EXPECT_TRUE(allocator.audit().ok());
}

}  // namespace
}  // namespace rlgen::engine
