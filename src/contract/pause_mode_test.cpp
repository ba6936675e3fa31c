#include "contract/pause_mode.h"

#include <gmock/gmock.h>

namespace rlgen {
namespace {

TEST(PauseModes, EachIsFoundByItsName) {
  for (const PauseMode mode :
       {PauseMode::kKeep, PauseMode::kWait, PauseMode::kAbort, PauseMode::kRetract}) {
    EXPECT_EQ(*parse_pause_mode(pause_mode_name(mode)), mode);
  }
}

TEST(PauseModes, AnotherNameIsRefusedWithThoseThereAre) {
  for (const char* name : {"in_place", "", "KEEP", "keep "}) {
    const Status refused = parse_pause_mode(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused));
    EXPECT_THAT(message_of(refused), testing::HasSubstr("keep, wait, abort, retract"));
  }
}

}  // namespace
}  // namespace rlgen
