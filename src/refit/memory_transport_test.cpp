#include "refit/memory_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refit/faulty_sink.h"

namespace rlgen::refit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MemoryTransport : public ::testing::Test {
 protected:
  MemoryTransport() : large_(size_t(3000) * 1024 * 2), small_(6 * 4) {
    for (size_t i = 0; i < large_.size(); ++i) large_[i] = std::byte(i * 7);
    tensors_ = {{"large", dense_view(large_.data(), DType::kBFloat16, Shape({3000, 1024}))},
                {"small", dense_view(small_.data(), DType::kFloat32, Shape({6}))}};
  }

  Status send(ThreadPool* pool = nullptr) {
    return send_tensors(tensors_, {.update_id = "u", .version = 3, .serial = 2}, sink_, pool);
  }

  std::vector<std::byte> large_, small_;
  std::vector<NamedTensor> tensors_;
  FaultySink sink_;
};

TEST_F(MemoryTransport, SendsWholeTensorsInPiecesFromWhereTheyStand) {
  ThreadPool pool(2);
  ASSERT_TRUE(send(&pool).ok());
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "prepare", "commit"));
  EXPECT_EQ(sink_.serving.at("large"), large_);
  EXPECT_EQ(sink_.serving.at("small"), small_);
  EXPECT_LE(sink_.largest, size_t(4) << 20);
  EXPECT_EQ(sink_.manifest[0].dtype, DType::kBFloat16);
}

TEST_F(MemoryTransport, RefusesBeforeItBegins) {
  tensors_.push_back(tensors_[1]);
  EXPECT_THAT(send().message(), HasSubstr("tensor small comes twice"));
  tensors_.pop_back();
  tensors_[0].view.strides[0] = 2048;
  tensors_[0].view.shape = Shape({1500, 1024});
  EXPECT_THAT(send().message(), HasSubstr("tensor large is not contiguous"));
  EXPECT_TRUE(sink_.calls.empty());
}

TEST_F(MemoryTransport, AnErrorOnTheWayAborts_FB103) {
  sink_.fail_at = FaultySink::Step::kWrite;
  sink_.good_writes = 1;
  const Status failed = send();
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(failed.message(), HasSubstr("large"));
  EXPECT_THAT(sink_.calls, ElementsAre("begin", "abort"));
  EXPECT_TRUE(sink_.serving.empty());
}

}  // namespace
}  // namespace rlgen::refit
