#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "generation/fake_store.h"
#include "generation/update_coordinator.h"

// A deadline that nobody waits for.
namespace rlgen::generation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class UpdateDeadlineTest : public testing::Test {
 protected:
  void begin(UpdateCoordinator& updates, const std::string& id, milliseconds deadline) {
    UpdateSpec spec{.update_id = id};
    spec.manifest.push_back({.name = "a", .dtype = DType::kFloat32, .shape = {}, .digest = {}});
    spec.deadline = deadline;
    ASSERT_TRUE(updates.begin(spec).ok());
  }
  static Status write(UpdateCoordinator& updates, const std::string& id) {
    const std::byte byte{7};
    return updates.write(id, "a", 0, std::span(&byte, 1));
  }
  std::vector<UpdateParticipant> both() {
    return {{"shard 0", &stores_[0]}, {"shard 1", &stores_[1]}};
  }
  bool any_open() const { return stores_[0].open_update() || stores_[1].open_update(); }
  // No call to the coordinator.
  void expect_dropped_soon() const {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (any_open() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_FALSE(any_open());
  }

  ManualClock clock_;
  FakeStore stores_[2];
};

TEST_F(UpdateDeadlineTest, ActsWhereNobodyCallsAnyMore) {
  UpdateCoordinator updates(both(), {.clock = &clock_, .last_serial = 1});
  for (const bool prepared : {false, true}) {
    const std::string id = prepared ? "prepared" : "receiving";
    begin(updates, id, seconds(10));
    ASSERT_TRUE(write(updates, id).ok());
    if (prepared) {
      ASSERT_TRUE(updates.prepare(id).ok());
    }
    clock_.advance(seconds(9));
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(stores_[0].open_update() && stores_[1].open_update());
    clock_.advance(seconds(1));
    expect_dropped_soon();
    EXPECT_EQ(updates.commit(id).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(updates.abort(id).ok());
  }
}

TEST_F(UpdateDeadlineTest, ActsInRealTimeAndTheNextUpdateBegins) {
  const auto clock = make_system_clock();
  UpdateCoordinator updates(both(), {.clock = clock.get(), .last_serial = 1});
  begin(updates, "stuck", milliseconds(20));
  expect_dropped_soon();
  begin(updates, "next", seconds(60));
  ASSERT_TRUE(write(updates, "next").ok());
  ASSERT_TRUE(updates.prepare("next").ok());
  ASSERT_TRUE(updates.commit("next").ok());
  EXPECT_EQ(stores_[1].served().at("a"), std::byte{7});
}

TEST_F(UpdateDeadlineTest, ADecidedUpdateIsNotTouched) {
  UpdateCoordinator updates(both(), {.clock = &clock_, .last_serial = 1});
  begin(updates, "u", seconds(10));
  ASSERT_TRUE(write(updates, "u").ok());
  ASSERT_TRUE(updates.prepare("u").ok());
  stores_[1].fault = [](std::string_view verb) {
    return verb == "commit" ? FakeStore::Fault::kRefused : FakeStore::Fault::kNone;
  };
  EXPECT_EQ(updates.commit("u").code(), absl::StatusCode::kUnavailable);
  clock_.advance(seconds(100));
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(stores_[1].open_update());
}

// Holds every write back until it is let go.
class SlowSink final : public WeightSink {
 public:
  explicit SlowSink(WeightSink* sink) : sink_(sink) {}

  Status begin(const UpdateSpec& spec) override { return sink_->begin(spec); }
  Status write(std::string_view id, std::string_view name, size_t offset,
               std::span<const std::byte> bytes) override {
    arrived = true;
    while (!let_go) std::this_thread::sleep_for(milliseconds(1));
    return sink_->write(id, name, offset, bytes);
  }
  Status prepare(std::string_view id) override { return sink_->prepare(id); }
  Status commit(std::string_view id) override { return sink_->commit(id); }
  Status abort(std::string_view id) override { return sink_->abort(id); }

  std::atomic<bool> arrived{false};
  std::atomic<bool> let_go{false};

 private:
  WeightSink* sink_;
};

TEST_F(UpdateDeadlineTest, AWriteThatMeetsItSaysSo) {
  SlowSink slow(&stores_[0]);
  UpdateCoordinator updates({{"shard 0", &slow}}, {.clock = &clock_, .last_serial = 1});
  begin(updates, "u", seconds(10));
  Status written;
  std::thread writer([&] { written = write(updates, "u"); });
  while (!slow.arrived) std::this_thread::sleep_for(milliseconds(1));
  clock_.advance(seconds(10));
  expect_dropped_soon();
  slow.let_go = true;
  writer.join();
  EXPECT_EQ(written.code(), absl::StatusCode::kDeadlineExceeded) << written;
}

}  // namespace
}  // namespace rlgen::generation
