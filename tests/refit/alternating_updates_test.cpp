#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "refit/fleet.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

// 100 updates, A, B, A, ..., under 64 running sequences: each token is held against an engine that
// does nothing else.
namespace rlgen::fleet_test {
namespace {

constexpr const char* kCheckpoint = "llama";
constexpr int kUpdates = 100;
constexpr int kAtOnce = 64;
constexpr int32_t kTokens = 100;

// A killed process cannot remove its shared memory.
void remove_buffers_of(pid_t process) {
  const std::string own = "rlgen-" + std::to_string(process) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with(own)) std::filesystem::remove(entry.path());
  }
}

class AlternatingUpdates : public ::testing::TestWithParam<int> {
 protected:
  // Even versions are A, odd ones B.
  const TrainerWeights& of(WeightVersion version) const { return version % 2 == 0 ? a_ : b_; }

  void submit_next() {
    const int n = submitted_++;
    fleet_.submit(std::to_string(n), engine::test::some_ids(size_t(4 + n % 17), 160, uint32_t(n)),
                  sampling_of(kTokens, n));
  }

  // Keeps kAtOnce sequences running through `update` for versions 1 .. kUpdates.
  template <typename Update>
  void run(const Update& update) {
    ASSERT_TRUE(fleet_.update(a_, KvPolicy::kRecompute, 2).ok());
    while (submitted_ < kAtOnce) submit_next();
    for (WeightVersion version = 3; version < 3 + kUpdates; ++version) {
      const Status status = update(version);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(fleet_->updates().version(), version);
      if (version % 10 == 0) fleet_.expect_served(of(version));
      const size_t before = fleet_->in_flight();
      for (size_t i = before; i < kAtOnce; ++i) submit_next();
      fleet_.wait_for_tokens(std::to_string(submitted_ - 1), 1);
    }
    for (int n = 0; n < submitted_; ++n) {
      const Rollout rollout = fleet_.wait(std::to_string(n));
      EXPECT_EQ(rollout.finish.reason, FinishReason::kLength);
      ASSERT_EQ(rollout.tokens.size(), size_t(kTokens));
      spans_ += rollout.version_spans().size();
    }
    EXPECT_GT(spans_, size_t(submitted_));  // updates came between tokens
  }

  // Each span continued by an engine that never had other weights than those named on it.
  void expect_bits_of_the_named_version() {
    Reference reference(kCheckpoint);
    const auto a = reference.pack(a_, 0);
    const auto b = reference.pack(b_, 1);
    engine::test::Bench benches[] = {engine::test::Bench(reference.loaded()),
                                     engine::test::Bench(reference.loaded())};
    benches[0].core->set_weights(a, KvPolicy::kRecompute);
    benches[1].core->set_weights(b, KvPolicy::kRecompute);
    SequenceId id = 0;
    for (const auto& [name, rollout] : fleet_.rollouts()) {
      std::vector<int32_t> ids;
      for (const TokenRecord& record : rollout.tokens) ids.push_back(record.token);
      for (const VersionSpan& span : rollout.version_spans()) {
        EXPECT_EQ(span.oldest_kv, span.version);
        SequenceRequest request = request_of(rollout, ++id);
        request.output_token_ids.assign(ids.begin(), ids.begin() + span.begin);
        request.sampling.max_tokens = span.end;
        const auto outcome = benches[span.version % 2].run(request);
        ASSERT_EQ(outcome.tokens.size(), size_t(span.end - span.begin));
        for (int32_t i = span.begin; i < span.end; ++i) {
          const TokenRecord& expected = outcome.tokens[size_t(i - span.begin)];
          EXPECT_EQ(rollout.tokens[size_t(i)].token, expected.token) << name << ", token " << i;
          EXPECT_EQ(rollout.tokens[size_t(i)].logprob, expected.logprob) << name << ", token " << i;
        }
      }
    }
  }

  // Each sequence run again, alone, with flips at the same tokens.
  void expect_bits_of_a_run_with_the_same_flips() {
    Reference reference(kCheckpoint);
    const auto a = reference.pack(a_, 0);
    const auto b = reference.pack(b_, 1);
    SequenceId id = 0;
    for (const auto& [name, rollout] : fleet_.rollouts()) {
      engine::test::Bench bench(reference.loaded());
      bench.core->submit(request_of(rollout, ++id));
      for (size_t i = 0; i < rollout.tokens.size(); ++i) {
        const WeightVersion version = rollout.tokens[i].version;
        if (i == 0 || version != rollout.tokens[i - 1].version) {
          bench.core->set_weights(reference.renamed(version % 2 == 0 ? *a : *b, version),
                                  KvPolicy::kKeep);
        }
        while (bench.sink.get(id).tokens.size() <= i && bench.core->step(engine::Admission::kAll)) {
        }
        ASSERT_EQ(bench.sink.get(id).tokens.size(), i + 1);
      }
      const auto outcome = bench.sink.get(id);
      for (size_t i = 0; i < rollout.tokens.size(); ++i) {
        expect_same_token(rollout.tokens[i], outcome.tokens[i],
                          name + ", token " + std::to_string(i));
      }
    }
  }

  const TrainerWeights a_{kCheckpoint, 0x10};
  const TrainerWeights b_{kCheckpoint, 0x24};
  Fleet fleet_{kCheckpoint, GetParam(), kAtOnce};
  int submitted_ = 0;
  size_t spans_ = 0;
};

TEST_P(AlternatingUpdates, RecomputeGivesTheBitsOfTheNamedVersion) {
  run([&](WeightVersion version) {
    return fleet_.update(of(version), KvPolicy::kRecompute, version);
  });
  expect_bits_of_the_named_version();
}

TEST_P(AlternatingUpdates, KeepGivesTheBitsOfARunThatFlipsAtTheSameTokens) {
  run([&](WeightVersion version) { return fleet_.update(of(version), KvPolicy::kKeep, version); });
  expect_bits_of_a_run_with_the_same_flips();
}

// Between every two updates one that fails: aborted half-way, past its deadline, or its sender
// killed. Nobody may see anything of it.
class FailingUpdates : public AlternatingUpdates {
 protected:
  Status fail(WeightVersion version) {
    switch (version % 3) {
      case 0:
        return abort_half_way(version);
      case 1:
        return miss_the_deadline(version);
      default:
        return version % 10 == 2 ? kill_the_sender(version) : abort_half_way(version);
    }
  }

  UpdateSpec failing(WeightVersion version) const {
    UpdateSpec spec{.update_id = "fails " + std::to_string(version), .version = version};
    spec.manifest = of(version + 1).manifest();
    return spec;
  }

  void write_some(const UpdateSpec& spec, size_t count) {
    for (size_t i = 0; i < std::min(count, spec.manifest.size()); ++i) {
      const std::string& name = spec.manifest[i].name;
      EXPECT_TRUE(
          fleet_->updates().write(spec.update_id, name, 0, of(*spec.version + 1).bytes(name)).ok());
    }
  }

  Status abort_half_way(WeightVersion version) {
    const UpdateSpec spec = failing(version);
    RLGEN_RETURN_IF_ERROR(fleet_->updates().begin(spec));
    const bool prepared = version % 2 == 0;
    write_some(spec, prepared ? spec.manifest.size() : 3);
    if (prepared) RLGEN_RETURN_IF_ERROR(fleet_->updates().prepare(spec.update_id));
    return fleet_->updates().abort(spec.update_id);
  }

  Status miss_the_deadline(WeightVersion version) {
    UpdateSpec spec = failing(version);
    spec.deadline = std::chrono::milliseconds(version % 2 == 0 ? 0 : 1);
    RLGEN_RETURN_IF_ERROR(fleet_->updates().begin(spec));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(fleet_->updates().prepare(spec.update_id).code(),
              absl::StatusCode::kDeadlineExceeded);
    return absl::OkStatus();
  }

  Status kill_the_sender(WeightVersion version) {
    const UpdateSpec spec = failing(version);
    const std::string endpoint = *refit::ipc_endpoint(
        ::testing::TempDir(), std::to_string(::getpid()), "kill" + std::to_string(version));
    const pid_t child = ::fork();
    if (child == 0) {
      auto to = refit::IpcSender::create(endpoint, {.buffer_bytes = 1024});
      if (!to.ok()) ::_exit(1);
      for (int i = 0; i < 2; ++i) {
        const std::string& name = spec.manifest[size_t(i)].name;
        to->send(name, of(version + 1).view(name)).IgnoreError();
      }
      ::kill(::getpid(), SIGKILL);
    }
    const auto received = refit::receive_ipc(endpoint, spec, fleet_->updates(),
                                             {.timeout = std::chrono::seconds(20)});
    ::waitpid(child, nullptr, 0);
    EXPECT_FALSE(received.ok());
    remove_buffers_of(child);
    return absl::OkStatus();
  }
};

TEST_P(FailingUpdates, ChangeNothing) {
  run([&](WeightVersion version) {
    RLGEN_RETURN_IF_ERROR(fail(version));
    EXPECT_EQ(fleet_->updates().version(), version - 1);
    return fleet_.update(of(version), KvPolicy::kRecompute, version);
  });
  expect_bits_of_the_named_version();
}

INSTANTIATE_TEST_SUITE_P(Shards, AlternatingUpdates, ::testing::Values(1, 2));
INSTANTIATE_TEST_SUITE_P(Shards, FailingUpdates, ::testing::Values(2));

}  // namespace
}  // namespace rlgen::fleet_test
