#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace rlgen {
namespace {

std::string encode(std::uint32_t code) {
  std::string text;
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80u | ((code >> shift) & 0x3fu));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0u | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0u | (code >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0u | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
  return text;
}

TEST(Utf8, EveryCharacterIsValidAndEverySurrogateIsNot) {
  for (std::uint32_t code = 0; code <= 0x10ffff; ++code) {
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    ASSERT_EQ(first_invalid_utf8(encode(code)).has_value(), surrogate) << code;
  }
}

TEST(Utf8, NamesTheFirstBadByte) {
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("plain"), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("ab\xff"), 2u);
  EXPECT_EQ(first_invalid_utf8("\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("a\xe2\x82\xac\xe2\x82"), 4u);
  EXPECT_EQ(first_invalid_utf8("\xe2\x82\x41"), 0u);
}

TEST(Utf8, RefusesOverlongFormsAndCodesThatDoNotExist) {
  EXPECT_EQ(first_invalid_utf8("\xc0\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xc1\xbf"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xe0\x9f\xbf"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf0\x8f\xbf\xbf"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0u);
  EXPECT_EQ(first_invalid_utf8("\xf5\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace rlgen
