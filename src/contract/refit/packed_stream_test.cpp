#include "contract/refit/packed_stream.h"

#include <gmock/gmock.h>

#include <cstring>

#include "contract/collective_sender_spec.h"

namespace rlgen {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int64_t> pack_sizes(const std::vector<int64_t>& sizes, int64_t threshold) {
  const auto packs = plan_packs(sizes, threshold);
  EXPECT_TRUE(packs.ok()) << packs.status();
  std::vector<int64_t> bytes;
  size_t next = 0;
  for (const Pack& pack : *packs) {
    EXPECT_EQ(pack.begin, next);
    next = pack.end;
    bytes.push_back(pack.bytes);
  }
  EXPECT_EQ(next, sizes.size());
  return bytes;
}

TEST(PackedStream, T19_PacksAreClosedOnceTheyOvershoot) {
  EXPECT_THAT(pack_sizes({4, 4, 4, 20, 3, 8}, 10), ElementsAre(12, 20, 11));
  EXPECT_THAT(pack_sizes({5, 5, 1}, 10), ElementsAre(11));
  EXPECT_THAT(pack_sizes({5, 5}, 10), ElementsAre(10));
  EXPECT_THAT(pack_sizes({4, 4, 4, 20, 3, 8}, 12), ElementsAre(32, 11));
  EXPECT_THAT(pack_sizes({1000}, 10), ElementsAre(1000));
  EXPECT_THAT(pack_sizes({0, 0}, 10), ElementsAre(0));
  EXPECT_THAT(pack_sizes({}, 10), IsEmpty());
  EXPECT_FALSE(plan_packs(std::vector<int64_t>{1}, 0).ok());
  EXPECT_FALSE(plan_packs(std::vector<int64_t>{-1}, 1).ok());
}

TEST(PackedStream, T19_OtherThresholdsAreRefusedBeforeAndSeenAtTheFirstPack) {
  EXPECT_TRUE(check_same_geometry({10}, {10}).ok());
  EXPECT_THAT(message_of(check_same_geometry({10}, {12})), AllOf(HasSubstr("10 and 12")));
  EXPECT_FALSE(check_same_geometry({10, false}, {10, true}).ok());
  const std::vector<int64_t> sizes{4, 4, 4, 20, 3, 8};
  const auto sent = *plan_packs(sizes, 10);
  const auto expected = *plan_packs(sizes, 12);
  const Status error = check_pack_size(expected[0], 0, sent[0].bytes);
  EXPECT_TRUE(absl::IsDataLoss(error));
  EXPECT_THAT(message_of(error), AllOf(HasSubstr("12 bytes"), HasSubstr("32")));
  EXPECT_TRUE(check_pack_size(sent[0], 0, 12).ok());
}

TEST(PackedStream, T19_ScalarsAndOddOffsetsComeOutWhole) {
  const std::vector<ManifestEntry> entries{
      {.name = "flag", .dtype = DType::kUInt8, .shape = Shape{}, .digest = ""},
      {.name = "row", .dtype = DType::kFloat32, .shape = Shape{2}, .digest = ""},
      {.name = "none", .dtype = DType::kFloat32, .shape = Shape{0}, .digest = ""}};
  std::vector<std::byte> bytes(9);
  bytes[0] = std::byte{7};
  const float row[] = {1.5f, -2.0f};
  std::memcpy(bytes.data() + 1, row, sizeof row);
  const auto tensors = unpack(bytes, {.begin = 0, .end = 3, .bytes = 9}, entries);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].value.shape(), Shape{});
  EXPECT_EQ((*tensors)[0].value.as<uint8_t>()[0], 7);
  EXPECT_EQ((*tensors)[1].name, "row");
  EXPECT_EQ((*tensors)[1].value.as<float>()[0], 1.5f);
  EXPECT_EQ((*tensors)[1].value.as<float>()[1], -2.0f);
  EXPECT_FALSE(unpack(bytes, {.begin = 0, .end = 1, .bytes = 9}, entries).ok());
  EXPECT_FALSE(unpack(std::span(bytes).first(8), {.begin = 0, .end = 2, .bytes = 8}, entries).ok());
  EXPECT_FALSE(unpack(bytes, {.begin = 0, .end = 4, .bytes = 9}, entries).ok());
}

TEST(CollectiveSenderSpec, T19_IsAValueWithTheDefaultsOfThePlainOne) {
  const CollectiveSenderSpec plain;
  EXPECT_EQ(plain, (CollectiveSenderSpec{"nemo", std::nullopt, std::nullopt, false}));
  EXPECT_NE(plain, CollectiveSenderSpec{.use_legacy_packing = true});
  EXPECT_TRUE(validate(plain).ok());
  EXPECT_TRUE(validate(CollectiveSenderSpec{"vllm", 1 << 30, 2, false}).ok());
  EXPECT_FALSE(validate(CollectiveSenderSpec{.nccl_peer = "other"}).ok());
  EXPECT_FALSE(validate(CollectiveSenderSpec{.buffer_size_bytes = 0}).ok());
  EXPECT_FALSE(validate(CollectiveSenderSpec{.num_buffers = 0}).ok());
}

}  // namespace
}  // namespace rlgen
