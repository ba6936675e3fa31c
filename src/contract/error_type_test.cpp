#include "contract/error_type.h"

#include <gtest/gtest.h>

namespace rlgen {
namespace {

TEST(ErrorType, TheCodeDecidesWhereNothingIsSaid) {
  EXPECT_EQ(error_type(absl::InvalidArgumentError("x")), "ValueError");
  EXPECT_EQ(error_type(absl::NotFoundError("x")), "ValueError");
  EXPECT_EQ(error_type(absl::UnimplementedError("x")), "NotImplementedError");
  EXPECT_EQ(error_type(absl::DeadlineExceededError("x")), "TimeoutError");
  EXPECT_EQ(error_type(absl::UnavailableError("x")), "RuntimeError");
  EXPECT_EQ(error_type(absl::FailedPreconditionError("x")), "RuntimeError");
  EXPECT_EQ(error_type(absl::OkStatus()), "");
}

TEST(ErrorType, WhatIsSaidWins) {
  const Status key = with_error_type(absl::InvalidArgumentError("x"), "KeyError");
  EXPECT_EQ(error_kind(key), ErrorKind::kKeyError);
  EXPECT_EQ(error_type(key), "KeyError");
  const Status fleet = with_error_type(absl::UnavailableError("x"), "NoSurvivingShards");
  EXPECT_EQ(error_kind(fleet), ErrorKind::kRuntimeError);
  EXPECT_EQ(error_type(fleet), "NoSurvivingShards");
  EXPECT_TRUE(with_error_type(absl::OkStatus(), "KeyError").ok());
}

TEST(ErrorType, EveryKindHasItsName) {
  for (const ErrorKind kind :
       {ErrorKind::kValueError, ErrorKind::kKeyError, ErrorKind::kAssertionError,
        ErrorKind::kNotImplementedError, ErrorKind::kTimeoutError, ErrorKind::kRuntimeError}) {
    EXPECT_EQ(error_kind(with_error_type(absl::InternalError("x"), error_kind_name(kind))), kind);
  }
}

TEST(ErrorType, SurvivesAnnotation) {
  const Status error =
      annotate(with_error_type(absl::InvalidArgumentError("x"), "AssertionError"), "here");
  EXPECT_EQ(error_type(error), "AssertionError");
  EXPECT_EQ(error.message(), "here: x");
  EXPECT_EQ(error_type(annotate(absl::InvalidArgumentError("x"), "here")), "ValueError");
  EXPECT_TRUE(annotate(absl::OkStatus(), "here").ok());
}

}  // namespace
}  // namespace rlgen
