#include "generation/update_coordinator.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <memory>

#include "generation/fake_store.h"
#include "generation/update_recovery.h"

namespace rlgen::generation {
namespace {

using std::chrono::seconds;
using Fault = FakeStore::Fault;

constexpr std::string_view kNames[] = {"a", "b"};

UpdateSpec spec_of(std::string id, std::optional<WeightVersion> version = std::nullopt) {
  UpdateSpec spec{.update_id = std::move(id), .version = version};
  for (const std::string_view name : kNames) {
    spec.manifest.push_back(
        {.name = std::string(name), .dtype = DType::kFloat32, .shape = {}, .digest = {}});
  }
  return spec;
}

Status send(UpdateCoordinator& updates, const std::string& id, std::string_view name, int value) {
  const std::byte byte{static_cast<unsigned char>(value)};
  return updates.write(id, name, 0, std::span(&byte, 1));
}

class UpdateCoordinatorTest : public testing::Test {
 protected:
  UpdateCoordinatorTest() { restart(); }

  void restart(CoordinatorOptions options = {}) {
    options.clock = &clock_;
    options.last_serial = 1;
    updates_ = std::make_unique<UpdateCoordinator>(
        std::vector<UpdateParticipant>{{"shard 0", &stores_[0]}, {"shard 1", &stores_[1]}},
        std::move(options));
  }

  // Stops at the first error.
  Status run(const std::string& id, int value, std::optional<WeightVersion> version = {}) {
    RLGEN_RETURN_IF_ERROR(updates_->begin(spec_of(id, version)));
    for (const std::string_view name : kNames) {
      RLGEN_RETURN_IF_ERROR(send(*updates_, id, name, value));
    }
    RLGEN_RETURN_IF_ERROR(updates_->prepare(id));
    return updates_->commit(id);
  }

  static FakeStore::Tensors all(int value) {
    const std::byte byte{static_cast<unsigned char>(value)};
    return {{"a", byte}, {"b", byte}};
  }
  void expect_both_serve(int value, WeightVersion version) {
    for (const FakeStore& store : stores_) {
      EXPECT_EQ(store.served(), all(value));
      EXPECT_EQ(store.version(), version);
      EXPECT_EQ(store.serial(), updates_->serial());
    }
    EXPECT_EQ(updates_->version(), version);
  }

  ManualClock clock_;
  FakeStore stores_[2];
  std::unique_ptr<UpdateCoordinator> updates_;
};

bool says(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string::npos;
}

TEST_F(UpdateCoordinatorTest, AnUpdateReachesEveryone) {
  EXPECT_TRUE(run("u", 7, 5).ok());
  expect_both_serve(7, 5);
  EXPECT_TRUE(updates_->commit("u").ok());
  EXPECT_EQ(updates_->abort("u").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(run("v", 8).ok());
  expect_both_serve(8, 6);
}

TEST_F(UpdateCoordinatorTest, GivesAnIdWhereThereIsNone) {
  const auto first = updates_->open(spec_of(""));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(updates_->open_update(), *first);
  EXPECT_TRUE(updates_->abort(*first).ok());
  EXPECT_EQ(updates_->open_update(), std::nullopt);
  const auto second = updates_->open(spec_of(""));
  EXPECT_NE(*first, *second);
}

TEST_F(UpdateCoordinatorTest, OneThatNobodyWantsAnyMoreIsDroppedAtOnce) {
  const auto open = updates_->open(spec_of("u"), [&] {
    EXPECT_EQ(updates_->open_update(), "u");
    return false;
  });
  EXPECT_EQ(open.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(updates_->open_update(), std::nullopt);
  for (const FakeStore& store : stores_) EXPECT_EQ(store.open_update(), std::nullopt);
  EXPECT_EQ(*updates_->open(spec_of("v"), [] { return true; }), "v");
  EXPECT_EQ(updates_->open_update(), "v");
}

TEST_F(UpdateCoordinatorTest, VersionsGoUpUnlessRollbackIsAllowed_FB111) {
  ASSERT_TRUE(run("u", 1, 57).ok());
  EXPECT_TRUE(says(run("same", 2, 57), "version 57 is served already"));
  EXPECT_TRUE(says(run("older", 2, 1), "older than version 57"));
  expect_both_serve(1, 57);
  UpdateSpec back = spec_of("back", 1);
  back.allow_rollback = true;
  ASSERT_TRUE(updates_->begin(back).ok());
  EXPECT_TRUE(says(updates_->begin(spec_of("second")), "while update back is open"));
}

TEST_F(UpdateCoordinatorTest, ALabelMayNotGoBelowTheLastUpdate) {
  ASSERT_TRUE(run("u", 1, 4).ok());
  const auto rename = [&](WeightVersion version) {
    return updates_->relabel(version, [&](size_t i) { return stores_[i].rename(version); });
  };
  EXPECT_TRUE(rename(9).ok());
  expect_both_serve(1, 9);
  EXPECT_TRUE(rename(9).ok());
  EXPECT_TRUE(rename(4).ok());
  expect_both_serve(1, 4);
  EXPECT_EQ(rename(3).code(), absl::StatusCode::kInvalidArgument);
  expect_both_serve(1, 4);
  EXPECT_TRUE(rename(9).ok());
  EXPECT_TRUE(run("next", 2).ok());
  expect_both_serve(2, 10);
}

TEST_F(UpdateCoordinatorTest, MissingTensorsMayStillCome_FB100) {
  ASSERT_TRUE(updates_->begin(spec_of("u")).ok());
  ASSERT_TRUE(send(*updates_, "u", "a", 3).ok());
  EXPECT_EQ(updates_->prepare("u").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(updates_->commit("u").code(), absl::StatusCode::kFailedPrecondition);
  expect_both_serve(0, 0);
  ASSERT_TRUE(send(*updates_, "u", "b", 3).ok());
  ASSERT_TRUE(updates_->prepare("u").ok());
  EXPECT_FALSE(send(*updates_, "u", "b", 3).ok());
  ASSERT_TRUE(updates_->commit("u").ok());
  expect_both_serve(3, 1);
}

TEST_F(UpdateCoordinatorTest, TheDeadlineDropsAnUpdateUntilItIsDecided) {
  for (const int steps : {0, 1, 2, 3}) {
    UpdateSpec spec = spec_of("late" + std::to_string(steps));
    spec.deadline = seconds(10);
    ASSERT_TRUE(updates_->begin(spec).ok());
    if (steps > 0) {
      ASSERT_TRUE(send(*updates_, spec.update_id, "a", 1).ok());
    }
    if (steps > 1) {
      ASSERT_TRUE(send(*updates_, spec.update_id, "b", 1).ok());
    }
    if (steps > 2) {
      ASSERT_TRUE(updates_->prepare(spec.update_id).ok());
    }
    clock_.advance(seconds(10));
    EXPECT_EQ(updates_->open_update(), std::nullopt);
    const Status late =
        steps < 2 ? send(*updates_, spec.update_id, "b", 1) : updates_->commit(spec.update_id);
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
    for (const FakeStore& store : stores_) EXPECT_EQ(store.open_update(), std::nullopt);
    expect_both_serve(0, 0);
  }
  EXPECT_TRUE(run("next", 1).ok());
}

TEST_F(UpdateCoordinatorTest, ADecisionThatCannotBeNotedIsNone) {
  Status noted = absl::ResourceExhaustedError("disk full");
  std::vector<UpdateDecision> notes;
  restart({.note = [&](const UpdateDecision& decision) {
    if (noted.ok()) notes.push_back(decision);
    return noted;
  }});
  EXPECT_TRUE(says(run("u", 1, 3), "stays undecided"));
  expect_both_serve(0, 0);
  noted = absl::OkStatus();
  EXPECT_TRUE(updates_->commit("u").ok());
  expect_both_serve(1, 3);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].update_id, "u");
  EXPECT_EQ(notes[0].version, 3);
  EXPECT_EQ(notes[0].serial, 2u);
}

TEST_F(UpdateCoordinatorTest, WhoMissesTheCommitIsStaleUntilItIsReached) {
  bool dead = true;
  stores_[1].fault = [&](std::string_view verb) {
    return dead && verb == "commit" ? Fault::kRefused : Fault::kNone;
  };
  EXPECT_TRUE(says(run("u", 1), "shard 1"));
  EXPECT_TRUE(updates_->is_current(0));
  EXPECT_FALSE(updates_->is_current(1));
  EXPECT_EQ(updates_->version(), 1);
  EXPECT_EQ(updates_->abort("u").code(), absl::StatusCode::kFailedPrecondition);
  dead = false;
  EXPECT_TRUE(updates_->commit("u").ok());
  EXPECT_TRUE(updates_->is_current(1));
  expect_both_serve(1, 1);
}

TEST_F(UpdateCoordinatorTest, TheNextUpdateGoesOnWithoutAStaleShardAndTakesItBack) {
  bool dead = true;
  stores_[1].fault = [&](std::string_view verb) {
    return verb == "commit" || verb == "abort" ? Fault::kRefused : Fault::kNone;
  };
  EXPECT_FALSE(run("u", 1).ok());
  stores_[1].fault = [&](std::string_view) { return dead ? Fault::kRefused : Fault::kNone; };
  EXPECT_TRUE(run("v", 2).ok());
  EXPECT_FALSE(updates_->is_current(1));
  EXPECT_EQ(stores_[1].served(), all(0));
  dead = false;
  EXPECT_TRUE(run("w", 3).ok());
  EXPECT_TRUE(updates_->is_current(1));
  expect_both_serve(3, 3);
}

// One fault of one store at each call of an update, each kind: the old weights or the new ones are
// served, complete, by whoever is current, and the next update heals everything.
TEST_F(UpdateCoordinatorTest, FB091_AFaultBetweenAnyTwoSteps) {
  constexpr int kCalls = 6;  // begin, two writes, prepare, commit of one store; abort
  int value = 0;
  for (const Fault kind : {Fault::kRefused, Fault::kCutOff}) {
    for (int store = 0; store < 2; ++store) {
      for (int at = 0; at < kCalls; ++at) {
        const int before = value;
        int calls = 0;
        stores_[store].fault = [&](std::string_view) {
          return calls++ == at ? kind : Fault::kNone;
        };
        const std::string id = std::to_string(++value);
        const Status ran = run(id, value);
        if (!ran.ok()) updates_->abort(id).IgnoreError();
        stores_[store].fault = {};
        for (size_t i = 0; i < 2; ++i) {
          const auto served = stores_[i].served();
          EXPECT_TRUE(served == all(before) || served == all(value));
          if (!updates_->is_current(i)) continue;
          EXPECT_EQ(stores_[i].serial(), updates_->serial());
        }
        EXPECT_TRUE(updates_->is_current(0) || updates_->is_current(1));
        ++value;
        const Status next = run(std::to_string(value), value);
        EXPECT_TRUE(next.ok()) << next << " after a fault of store " << store << " at call " << at;
        expect_both_serve(value, updates_->version());
      }
    }
  }
}

// The coordinator dies between any two steps; a new one asks and brings both to one.
TEST_F(UpdateCoordinatorTest, ANewCoordinatorBringsAllToOne) {
  constexpr int kSteps = 10;
  for (const bool noted : {false, true}) {
    for (int last = 0; last <= kSteps; ++last) {
      FakeStore stores[2];
      const auto spec = [&] {
        UpdateSpec made = spec_of("u", 1);
        made.serial = 2;
        return made;
      }();
      const std::byte byte{9};
      const std::function<Status(FakeStore&)> steps[] = {
          [&](FakeStore& store) { return store.begin(spec); },
          [&](FakeStore& store) { return store.write("u", "a", 0, std::span(&byte, 1)); },
          [&](FakeStore& store) { return store.write("u", "b", 0, std::span(&byte, 1)); },
          [&](FakeStore& store) { return store.prepare("u"); },
          [&](FakeStore& store) { return store.commit("u"); }};
      for (int step = 0; step < last; ++step) {
        ASSERT_TRUE(steps[step / 2](stores[step % 2]).ok());
      }
      const bool prepared = last >= 8;
      if (noted && !prepared) continue;
      std::vector<RecoveringShard> shards;
      for (FakeStore& store : stores) {
        shards.push_back({&store, store.version(), store.serial(), store.open_update()});
      }
      const Recovery found = recover_updates(shards, noted ? 2 : 0);
      EXPECT_TRUE(found.behind.empty());
      const int served = noted || last > 8 ? 9 : 0;
      for (const FakeStore& store : stores) {
        EXPECT_EQ(store.served(), all(served)) << "after step " << last;
        EXPECT_EQ(store.serial(), found.serial);
        EXPECT_EQ(store.open_update(), std::nullopt);
      }
    }
  }
}

// Any calls in any order, with any faults: whoever is current serves what was decided last, and
// everyone serves one whole update.
RC_GTEST_FIXTURE_PROP(UpdateCoordinatorTest, AnyCallsWithAnyFaults, ()) {
  int salt = 0;
  // Drawn beforehand: stores are called from several threads.
  const auto dice = *rc::gen::container<std::vector<int>>(200, rc::gen::inRange(0, 20));
  const int fault_share = *rc::gen::inRange(0, 8);
  std::atomic<size_t> thrown{0};
  std::atomic<bool> sound{false};
  for (FakeStore& store : stores_) {
    store.fault = [&](std::string_view) {
      const int die = dice[thrown++ % dice.size()];
      if (sound || die >= fault_share) return Fault::kNone;
      return die % 2 == 0 ? Fault::kRefused : Fault::kCutOff;
    };
  }
  std::string id = "none";
  int value = 0;
  WeightSerial last_serial = 1;
  const int calls = *rc::gen::inRange(1, 40);
  for (int call = 0; call < calls; ++call) {
    switch (*rc::gen::inRange(0, 8)) {
      case 0:
        id = "u" + std::to_string(++salt);
        value = salt;
        if (*rc::gen::arbitrary<bool>()) {
          UpdateSpec spec = spec_of(id);
          spec.deadline = seconds(5);
          updates_->begin(spec).IgnoreError();
        } else {
          updates_->begin(spec_of(id)).IgnoreError();
        }
        break;
      case 1:
      case 2:
        for (const std::string_view name : kNames) {
          send(*updates_, id, name, value).IgnoreError();
        }
        break;
      case 3:
        updates_->prepare(id).IgnoreError();
        break;
      case 4:
      case 5:
        updates_->commit(id).IgnoreError();
        break;
      case 6:
        updates_->abort(id).IgnoreError();
        break;
      default:
        clock_.advance(seconds(*rc::gen::inRange(0, 3)));
    }
    RC_ASSERT(updates_->serial() >= last_serial);
    last_serial = updates_->serial();
    for (size_t i = 0; i < 2; ++i) {
      const auto served = stores_[i].served();
      RC_ASSERT(served.at("a") == served.at("b"));
      if (updates_->is_current(i)) {
        RC_ASSERT(stores_[i].serial() == updates_->serial());
      }
    }
  }
  sound = true;
  if (const auto open = updates_->open_update()) {
    if (!updates_->abort(*open).ok()) {
      RC_ASSERT(updates_->commit(*open).ok());
    }
  }
  RC_ASSERT(run("last", 200).ok());
  for (const FakeStore& store : stores_) RC_ASSERT(store.served() == all(200));
}

}  // namespace
}  // namespace rlgen::generation
