#include "refit/checkpoint_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "models/test_files.h"

namespace rlgen::refit {
namespace {

using models::SafetensorsFolder;
using models::StoredTensor;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, std::vector<std::byte>, std::less<>>;

// A sink that keeps what it gets and fails at the call it is told to.
class FaultySink final : public WeightSink {
 public:
  enum class Step { kNone, kBegin, kWrite, kPrepare, kCommit };

  Status begin(const UpdateSpec& spec) override {
    calls.push_back("begin");
    if (fail_at == Step::kBegin) return fault();
    manifest = spec.manifest;
    for (const ManifestEntry& entry : spec.manifest) {
      shadow[entry.name].resize(size_t(entry.shape.num_elements() * size_of(entry.dtype)));
    }
    missing = 0;
    for (const auto& [name, bytes] : shadow) missing += bytes.size();
    return absl::OkStatus();
  }
  Status write(std::string_view, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    std::lock_guard lock(mutex_);
    ++writes;
    largest = std::max(largest, bytes.size());
    if (fail_at == Step::kWrite && writes > good_writes) return fault();
    std::vector<std::byte>& target = shadow.find(name)->second;
    std::copy(bytes.begin(), bytes.end(), target.begin() + ptrdiff_t(offset));
    missing -= bytes.size();
    return absl::OkStatus();
  }
  Status prepare(std::string_view) override {
    calls.push_back("prepare");
    if (fail_at == Step::kPrepare) return fault();
    return missing == 0 ? absl::OkStatus() : absl::FailedPreconditionError("gaps");
  }
  Status commit(std::string_view) override {
    calls.push_back("commit");
    if (fail_at == Step::kCommit) return fault();
    serving = std::move(shadow);
    return absl::OkStatus();
  }
  Status abort(std::string_view) override {
    calls.push_back("abort");
    shadow.clear();
    return abort_fails ? absl::UnavailableError("gone") : absl::OkStatus();
  }

  static Status fault() { return absl::UnavailableError("the sink is out"); }

  Step fail_at = Step::kNone;
  int good_writes = 0;
  bool abort_fails = false;
  std::vector<std::string> calls;  // but for writes
  int writes = 0;
  size_t largest = 0, missing = 0;
  std::vector<ManifestEntry> manifest;
  Tensors serving, shadow;

 private:
  std::mutex mutex_;
};

using Step = FaultySink::Step;

SafetensorsFolder checkpoint() {
  return *SafetensorsFolder::open("tests/fixtures/checkpoints/llama_sharded");
}

UpdateSpec update() {
  UpdateSpec spec;
  spec.update_id = "u1";
  spec.serial = 1;
  return spec;
}

TEST(SendCheckpoint, DeliversEveryByte) {
  const SafetensorsFolder folder = checkpoint();
  for (const int threads : {0, 1, 2}) {
    FaultySink sink;
    ThreadPool pool(threads);
    ASSERT_TRUE(send_checkpoint(folder, update(), sink, threads == 0 ? nullptr : &pool).ok());
    EXPECT_THAT(sink.calls, ElementsAre("begin", "prepare", "commit"));
    ASSERT_EQ(sink.serving.size(), folder.tensors().size());
    for (const StoredTensor& tensor : folder.tensors()) {
      EXPECT_TRUE(std::ranges::equal(sink.serving[tensor.name], tensor.bytes)) << tensor.name;
    }
  }
}

TEST(SendCheckpoint, CutsLargeTensorsAtRowGroups) {
  models::test::TempFolder file;
  std::string data(100 * 24000 * 4 + 4, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = char(i * 2654435761u >> 24);
  file.write("model.safetensors",
             models::test::image(
                 R"({"big":{"dtype":"F32","shape":[100,24000],"data_offsets":[0,9600000]},)"
                 R"("none":{"dtype":"F32","shape":[0],"data_offsets":[9600000,9600000]},)"
                 R"("one":{"dtype":"F32","shape":[],"data_offsets":[9600000,9600004]}})",
                 data));
  const auto folder = SafetensorsFolder::open(file.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  FaultySink sink;
  ThreadPool pool(2);
  ASSERT_TRUE(send_checkpoint(*folder, update(), sink, &pool).ok());
  EXPECT_EQ(sink.largest, size_t(32 * 24000 * 4));
  EXPECT_EQ(sink.writes, 4 + 1 + 1);
  EXPECT_TRUE(std::ranges::equal(sink.serving["big"], folder->find("big")->bytes));
}

class AtEachStep : public ::testing::TestWithParam<Step> {};

TEST_P(AtEachStep, KeepsTheOldStateAndAborts) {
  const SafetensorsFolder folder = checkpoint();
  ThreadPool pool(2);
  FaultySink sink;
  sink.serving = {{"old", {std::byte(7)}}};
  const Tensors before = sink.serving;
  sink.fail_at = GetParam();
  sink.good_writes = 3;
  const Status status = send_checkpoint(folder, update(), sink, &pool);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(status), HasSubstr("the sink is out"));
  EXPECT_EQ(sink.serving, before);
  const bool begun = GetParam() != Step::kBegin;
  EXPECT_EQ(sink.calls.back(), begun ? "abort" : "begin");
  if (GetParam() == Step::kWrite) {
    EXPECT_THAT(message_of(status), AllOf(HasSubstr(".safetensors: tensor \"")));
    EXPECT_LE(sink.writes, 5);
  }
  sink.fail_at = Step::kNone;
  EXPECT_TRUE(send_checkpoint(folder, update(), sink, &pool).ok());
  EXPECT_EQ(sink.serving.size(), folder.tensors().size());
}

INSTANTIATE_TEST_SUITE_P(SendCheckpoint, AtEachStep,
                         ::testing::Values(Step::kBegin, Step::kWrite, Step::kPrepare,
                                           Step::kCommit));

TEST(SendCheckpoint, TellsOfAnAbortThatFails) {
  FaultySink sink;
  sink.fail_at = Step::kPrepare;
  sink.abort_fails = true;
  const Status status = send_checkpoint(checkpoint(), update(), sink, nullptr);
  EXPECT_THAT(message_of(status),
              AllOf(HasSubstr("the sink is out"), HasSubstr("update u1"), HasSubstr("gone")));
}

}  // namespace
}  // namespace rlgen::refit
