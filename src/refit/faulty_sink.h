#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "contract/weight_sink.h"

// For the tests of this folder.
namespace rlgen::refit {

using Tensors = std::map<std::string, std::vector<std::byte>, std::less<>>;

// A sink that keeps what it gets and fails at the call it is told to.
class FaultySink final : public WeightSink {
 public:
  enum class Step { kNone, kBegin, kWrite, kPrepare, kCommit };

  Status begin(const UpdateSpec& spec) override {
    calls.push_back("begin");
    if (fail_at == Step::kBegin) return fault;
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
    if (on_write) on_write(name);
    std::lock_guard lock(mutex_);
    ++writes;
    largest = std::max(largest, bytes.size());
    if (fail_at == Step::kWrite && writes > good_writes) return fault;
    std::vector<std::byte>& target = shadow.find(name)->second;
    std::copy(bytes.begin(), bytes.end(), target.begin() + ptrdiff_t(offset));
    missing -= bytes.size();
    return absl::OkStatus();
  }
  Status prepare(std::string_view) override {
    calls.push_back("prepare");
    if (fail_at == Step::kPrepare) return fault;
    return missing == 0 ? absl::OkStatus() : absl::FailedPreconditionError("gaps");
  }
  Status commit(std::string_view) override {
    calls.push_back("commit");
    if (fail_at == Step::kCommit) return fault;
    serving = std::move(shadow);
    return absl::OkStatus();
  }
  Status abort(std::string_view) override {
    calls.push_back("abort");
    shadow.clear();
    return abort_fails ? absl::UnavailableError("gone") : absl::OkStatus();
  }

  int write_count() {
    std::lock_guard lock(mutex_);
    return writes;
  }

  std::function<void(std::string_view name)> on_write;  // called first, if set
  Step fail_at = Step::kNone;
  Status fault = absl::UnavailableError("the sink is out");
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

}  // namespace rlgen::refit
