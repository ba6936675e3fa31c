#include "text/utf8_cutter.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/utf8.h"

namespace rlgen::text {
namespace {

TEST(Utf8Cutter, HoldsACharacterUntilItIsComplete) {
  Utf8Cutter cutter;
  std::string out;
  cutter.push("a\xF0\x9F", out);
  EXPECT_EQ(out, "a");
  cutter.push("\x98\x80z", out);
  EXPECT_EQ(out, "a\U0001F600z");
}

TEST(Utf8Cutter, AnOpenCharacterAtTheEndIsOneReplacement) {
  EXPECT_EQ(lossy_utf8("a\xF0\x9F\x98"), "a\uFFFD");
}

// The table of the Unicode standard's section 3.9.
TEST(Utf8Cutter, ReplacesMaximalSubparts) {
  EXPECT_EQ(lossy_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(lossy_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(lossy_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(lossy_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

RC_GTEST_PROP(Utf8CutterProperty, PiecesJoinedEqualTheWhole,
              (std::string bytes, std::string more)) {
  const std::string whole = bytes + "\xE4\xB8\x96" + more + "\xF0\x9F\x98\x80" + bytes;
  Utf8Cutter cutter;
  std::string joined;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    cutter.push(std::string_view(whole).substr(i, 1), joined);
    RC_ASSERT(!first_invalid_utf8(joined).has_value());
  }
  cutter.finish(joined);
  RC_ASSERT(joined == lossy_utf8(whole));
  if (!first_invalid_utf8(whole)) RC_ASSERT(joined == whole);
}

}  // namespace
}  // namespace rlgen::text
