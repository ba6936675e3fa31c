#include "tensor/region.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace rlgen {
namespace {

class RegionTest : public testing::TestWithParam<RegionKind> {};

TEST_P(RegionTest, IsZeroedAlignedAndWritable) {
  const auto region = Region::create(3'000'001, GetParam());
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ((*region)->size(), 3'000'001);
  EXPECT_EQ((*region)->kind(), GetParam());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*region)->data()) % 4096, 0u);
  const auto bytes = (*region)->bytes();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == std::byte{0}; }));
  bytes.front() = std::byte{1};
  bytes.back() = std::byte{2};
  EXPECT_EQ(bytes.back(), std::byte{2});
}

TEST_P(RegionTest, MayBeEmpty) {
  const auto region = Region::create(0, GetParam());
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_TRUE((*region)->bytes().empty());
}

TEST_P(RegionTest, RefusesSizesThatCannotBe) {
  EXPECT_EQ(Region::create(-1, GetParam()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Region::create(std::numeric_limits<std::int64_t>::max(), GetParam()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(RegionTest, ReleasedPagesAreZeroAndCanBeUsedAgain) {
  const auto region = Region::create(3'000'001, GetParam());
  ASSERT_TRUE(region.ok()) << region.status();
  const auto bytes = (*region)->bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  ASSERT_TRUE((*region)->release_pages().ok());
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == std::byte{0}; }));
  bytes.back() = std::byte{2};
  EXPECT_EQ(bytes.back(), std::byte{2});
}

INSTANTIATE_TEST_SUITE_P(Kinds, RegionTest,
                         testing::Values(RegionKind::kAnonymous, RegionKind::kShared),
                         [](const auto& info) {
                           return info.param == RegionKind::kShared ? "Shared" : "Anonymous";
                         });

TEST(Region, AnonymousHasNoDescriptor) { EXPECT_EQ((*Region::create(10))->fd(), -1); }

TEST(Region, AttachSeesTheSameBytesAndOutlivesTheMaker) {
  auto maker = *Region::create(5000, RegionKind::kShared, "rlgen-test");
  maker->data()[4999] = std::byte{7};
  const auto attached = Region::attach(maker->fd(), 5000);
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_NE((*attached)->fd(), maker->fd());
  maker.reset();
  EXPECT_EQ((*attached)->data()[4999], std::byte{7});
}

TEST(Region, AttachChecksTheSize) {
  const auto region = *Region::create(100, RegionKind::kShared);
  EXPECT_EQ(Region::attach(region->fd(), 101).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Region::attach(region->fd(), -1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Region::attach(-1, 1).ok());
}

TEST(Region, LastHolderClosesTheDescriptor) {
  int fd = -1;
  {
    const auto region = *Region::create(100, RegionKind::kShared);
    fd = region->fd();
    const std::shared_ptr<const Region> second = region;
    EXPECT_EQ(second->data(), region->data());
  }
  EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), -1);
}

}  // namespace
}  // namespace rlgen
