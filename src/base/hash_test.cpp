#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace rlgen {
namespace {

TEST(Digest, EmptyInputGivesThePublishedValue) {
  EXPECT_EQ(digest_of("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, HexIsParsedBack) {
  const Digest digest = digest_of("rollout");
  EXPECT_EQ(digest.hex().size(), 32u);
  EXPECT_EQ(parse_digest(digest.hex()), digest);
  EXPECT_EQ(parse_digest("00000000000000010000000000000ABC"), (Digest{1, 0xabc}));
}

TEST(Digest, RefusesOtherText) {
  EXPECT_EQ(parse_digest(""), std::nullopt);
  EXPECT_EQ(parse_digest("0123"), std::nullopt);
  EXPECT_EQ(parse_digest("0000000000000001000000000000000g"), std::nullopt);
  EXPECT_EQ(parse_digest("+0000000000000010000000000000000"), std::nullopt);
}

TEST(DigestStream, CutsMakeNoDifference) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>(i * 31);
  const Digest whole = digest_of(bytes);
  for (const std::size_t step : {1u, 7u, 64u, 255u, 256u, 257u, 1024u, 5000u}) {
    DigestStream stream;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      stream.update(std::string_view(bytes).substr(at, step));
    }
    EXPECT_EQ(stream.digest(), whole) << step;
  }
}

TEST(DigestStream, GoesOnAfterADigest) {
  DigestStream stream;
  EXPECT_EQ(stream.digest(), digest_of(""));
  stream.update("ab");
  EXPECT_EQ(stream.digest(), digest_of("ab"));
  DigestStream moved = std::move(stream);
  moved.update("c");
  EXPECT_EQ(moved.digest(), digest_of("abc"));
}

TEST(Digest, OneBitChangesIt) {
  std::string bytes(1000, 'x');
  const Digest before = digest_of(bytes);
  bytes[500] = 'y';
  EXPECT_NE(digest_of(bytes), before);
}

}  // namespace
}  // namespace rlgen
