#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace rlgen {
namespace {

TEST(Log, ReachesTheSinkWithItsLevel) {
  std::string seen;
  LogLevel level = LogLevel::kDebug;
  const LogSink sink = [&](LogLevel l, std::string_view message) {
    level = l;
    seen = message;
  };
  write_log(sink, LogLevel::kWarning, "slow disk");
  EXPECT_EQ(seen, "slow disk");
  EXPECT_EQ(level, LogLevel::kWarning);
}

TEST(Log, EmptySinkIsSilence) { write_log({}, LogLevel::kError, "nobody hears"); }

}  // namespace
}  // namespace rlgen
