#include "base/status.h"

#include <absl/strings/cord.h>
#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(Status, ContextComesBeforeTheMessage) {
  const Status said = annotate(absl::NotFoundError("no such tensor"), "update 3");
  EXPECT_EQ(said, absl::NotFoundError("update 3: no such tensor"));
  EXPECT_TRUE(annotate(absl::OkStatus(), "update 3").ok());
  EXPECT_TRUE(with_message(absl::OkStatus(), "x").ok());
}

TEST(Status, WhatIsBesideTheMessageStays) {
  Status error = absl::InvalidArgumentError("x");
  error.SetPayload("one", absl::Cord("1"));
  error.SetPayload("two", absl::Cord("2"));
  for (const Status& said : {annotate(annotate(error, "b"), "a"), with_message(error, "a: b: x")}) {
    EXPECT_EQ(said.message(), "a: b: x");
    EXPECT_EQ(said.GetPayload("one"), absl::Cord("1"));
    EXPECT_EQ(said.GetPayload("two"), absl::Cord("2"));
  }
}

}  // namespace
}  // namespace rlgen
