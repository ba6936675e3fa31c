#include <gtest/gtest.h>

#include <thread>

#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"

// What is left of an update whose sender died, without a call of anybody.
namespace rlgen::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::run_update;
using test::small_table;
using test::tensor_bytes;
using test::write_all;

UpdateSpec limited(WeightSerial serial, milliseconds deadline) {
  UpdateSpec spec = test::numbered(serial);
  spec.deadline = deadline;
  return spec;
}

// Begins, and writes half of the first tensor, which the store holds until the rest comes.
void leave_half_done(WeightStore& store, const UpdateSpec& spec) {
  ASSERT_TRUE(store.begin(spec).ok());
  const auto bytes = tensor_bytes(spec.manifest[0], 2);
  ASSERT_TRUE(
      store.write(spec.update_id, spec.manifest[0].name, 0, std::span(bytes).first(100)).ok());
  EXPECT_EQ(store.staging_bytes(), int64_t(bytes.size()));
}

void expect_nothing_staged_soon(const WeightStore& store) {
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (store.staging_bytes() > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(store.staging_bytes(), 0);
}

TEST(StoreDeadline, FreesWhatADeadSenderLeft) {
  ManualClock clock;
  WeightStore store(small_table(), {.clock = &clock});
  ASSERT_TRUE(run_update(&store, limited(1, seconds(60)), 1).ok());
  leave_half_done(store, limited(2, seconds(5)));
  clock.advance(seconds(4));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GT(store.staging_bytes(), 0);
  clock.advance(seconds(1));
  expect_nothing_staged_soon(store);
  EXPECT_EQ(store.abort("u2"), absl::OkStatus());
  EXPECT_EQ(store.prepare("u2").code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(run_update(&store, limited(3, seconds(60)), 3).ok());
}

TEST(StoreDeadline, ActsInRealTime) {
  const auto clock = make_system_clock();
  WeightStore store(small_table(), {.clock = clock.get()});
  for (WeightSerial serial = 1; serial <= 3; ++serial) {
    leave_half_done(store, limited(serial, milliseconds(15)));
    expect_nothing_staged_soon(store);
  }
}

// It comes while a flip waits: what is being committed is not cut off, what failed to be is.
TEST(StoreDeadline, ACommitUnderWayIsNotCutOff) {
  for (const bool flips : {true, false}) {
    ManualClock clock;
    WeightStore store(small_table(), {.clock = &clock, .flip = [&](auto, KvPolicy) -> Status {
                                        clock.advance(seconds(10));
                                        std::this_thread::sleep_for(milliseconds(10));
                                        return flips ? absl::OkStatus()
                                                     : absl::UnavailableError("gone");
                                      }});
    const UpdateSpec spec = limited(1, seconds(5));
    ASSERT_TRUE(store.begin(spec).ok());
    ASSERT_TRUE(write_all(&store, spec, 1).ok());
    ASSERT_TRUE(store.prepare("u1").ok());
    EXPECT_EQ(store.commit("u1").ok(), flips);
    EXPECT_EQ(store.current() != nullptr, flips);
    const Status again = store.commit("u1");
    EXPECT_EQ(again.code(), flips ? absl::StatusCode::kOk : absl::StatusCode::kDeadlineExceeded);
  }
}

}  // namespace
}  // namespace rlgen::engine
