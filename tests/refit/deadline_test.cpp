#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "backends/local/local_launcher.h"
#include "generation/update_coordinator.h"
#include "refit/checkpoint_transport.h"
#include "refit/fleet.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

// A sender that dies or stalls, over each transport: at the deadline the update is gone from the
// shard, with nobody calling.
namespace rlgen::fleet_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kShort{60};

class NoEvents final : public EventSink {
 public:
  void on_events(EventBatch) override {}
};

// Passes an update on, and stands still in the write after `good_writes`, until it is let go.
class StallingSink final : public WeightSink {
 public:
  StallingSink(WeightSink* sink, int good_writes) : sink_(sink), left_(good_writes) {}

  Status begin(const UpdateSpec& spec) override { return sink_->begin(spec); }
  Status write(std::string_view id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    if (left_-- == 0) let_go.get_future().wait();
    return sink_->write(id, name, offset, bytes);
  }
  Status prepare(std::string_view id) override { return sink_->prepare(id); }
  Status commit(std::string_view id) override { return sink_->commit(id); }
  Status abort(std::string_view id) override { return sink_->abort(id); }

  std::promise<void> let_go;

 private:
  WeightSink* sink_;
  std::atomic<int> left_;
};

class Deadline : public ::testing::Test {
 protected:
  Deadline() {
    ShardSpec spec{.model = fixture("llama"), .num_threads = 1};
    shard_ = *launcher_.start(spec, events_);
    updates_ = std::make_unique<generation::UpdateCoordinator>(
        std::vector<generation::UpdateParticipant>{{"shard 0", shard_.get()}},
        generation::CoordinatorOptions{.clock = clock_.get(), .last_serial = 1});
  }

  UpdateSpec limited(const std::string& id) const {
    UpdateSpec spec{.update_id = id};
    spec.manifest = weights_.manifest();
    spec.deadline = kShort;
    return spec;
  }
  // The shard's own word: the deadline is the coordinator's, so the shard does not judge by time.
  bool is_open() { return shard_->info()->open_update.has_value(); }
  void wait_until_open(bool open) {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (is_open() != open && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(is_open(), open);
  }

  const TrainerWeights weights_{"llama", 0x10};
  const std::unique_ptr<Clock> clock_ = make_system_clock();
  NoEvents events_;
  backends::LocalLauncher launcher_;
  std::unique_ptr<ShardClient> shard_;
  std::unique_ptr<generation::UpdateCoordinator> updates_;
};

TEST_F(Deadline, OfATrainerThatDiedInMemory) {
  ASSERT_TRUE(updates_->begin(limited("u")).ok());
  const std::string& name = weights_.manifest()[0].name;
  ASSERT_TRUE(updates_->write("u", name, 0, weights_.bytes(name).first(3)).ok());
  wait_until_open(false);
  EXPECT_EQ(updates_->prepare("u").code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(Deadline, OfACheckpointThatCannotBeRead) {
  const auto folder = *models::SafetensorsFolder::open(fixture("llama"));
  StallingSink stalling(updates_.get(), 3);
  auto sent = std::async(std::launch::async, [&] {
    return refit::send_checkpoint(folder, limited("u"), stalling, nullptr);
  });
  wait_until_open(true);
  wait_until_open(false);
  EXPECT_EQ(sent.wait_for(seconds(0)), std::future_status::timeout);
  stalling.let_go.set_value();
  EXPECT_EQ(sent.get().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(Deadline, OfAProcessThatStalls) {
  const std::string endpoint =
      *refit::ipc_endpoint(::testing::TempDir(), std::to_string(::getpid()), "stalls");
  auto received = std::async(std::launch::async, [&] {
    return refit::receive_ipc(endpoint, limited("u"), *updates_, {.timeout = seconds(60)});
  });
  auto sender = *refit::IpcSender::create(endpoint, {.buffer_bytes = 2 * 512});
  const std::string& name = weights_.manifest()[0].name;
  ASSERT_TRUE(sender.send(name, weights_.view(name)).ok());
  wait_until_open(false);
  EXPECT_EQ(received.get().status().code(), absl::StatusCode::kDeadlineExceeded);
}

// After each the next update is as if nothing had been.
TEST_F(Deadline, LeavesNothingInTheWay) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(updates_->begin(limited("stuck " + std::to_string(round))).ok());
    wait_until_open(false);
    const UpdateSpec whole{.update_id = "whole " + std::to_string(round)};
    ASSERT_TRUE(refit::send_tensors(weights_.tensors(), whole, *updates_, nullptr).ok());
    EXPECT_EQ(updates_->version(), round + 1);
  }
}

}  // namespace
}  // namespace rlgen::fleet_test
