#include "contract/manifest_error.h"

#include <gtest/gtest.h>

#include "contract/error_type.h"

namespace rlgen {
namespace {

TEST(ManifestError, IsAMarkThatStaysWithTheStatus) {
  const Status bad = absl::InvalidArgumentError("q is missing");
  EXPECT_FALSE(is_manifest_error(bad));
  const Status marked = annotate(manifest_error(bad), "shard 1");
  EXPECT_TRUE(is_manifest_error(marked));
  EXPECT_EQ(marked.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(marked), "shard 1: q is missing");
  EXPECT_EQ(error_type(marked), "ValueError");
}

TEST(ManifestError, MarksBadInputOnly) {
  EXPECT_TRUE(manifest_error(absl::OkStatus()).ok());
  for (const Status& other : {absl::UnavailableError("gone"), absl::UnimplementedError("type")}) {
    EXPECT_EQ(manifest_error(other), other);
    EXPECT_FALSE(is_manifest_error(manifest_error(other)));
  }
}

}  // namespace
}  // namespace rlgen
