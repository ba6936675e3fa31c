#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/shard.h"

namespace rlgen::generation {

// A store of one-byte tensors that keeps to the rules of WeightSink, and breaks when told to. For
// unit tests of this module. Thread-safe.
class FakeStore final : public WeightSink {
 public:
  enum class Fault {
    kNone,
    kRefused,  // the call does nothing and says kUnavailable
    kCutOff,   // the call takes effect and its answer is lost: kUnavailable
  };
  using Tensors = std::map<std::string, std::byte, std::less<>>;

  // Asked before each call of a verb ("begin", "write", "prepare", "commit", "abort"). Set it
  // before the store is shared, but for tests on one thread.
  std::function<Fault(std::string_view verb)> fault;

  Status begin(const UpdateSpec& spec) override {
    return act("begin", [&]() -> Status {
      if (open_) return absl::FailedPreconditionError("fake: update is open");
      if (spec.serial <= serial_ || ids_.contains(spec.update_id)) {
        return absl::InvalidArgumentError("fake: serial or id is not new");
      }
      ids_.insert(spec.update_id);
      open_ = OpenUpdate{spec.update_id, *spec.version, spec.serial, false};
      missing_.clear();
      for (const ManifestEntry& entry : spec.manifest) missing_.insert(entry.name);
      shadow_.clear();
      return absl::OkStatus();
    });
  }

  Status write(std::string_view id, std::string_view name, size_t,
               std::span<const std::byte> bytes) override {
    return act("write", [&]() -> Status {
      RLGEN_RETURN_IF_ERROR(check(id));
      if (open_->prepared || missing_.erase(std::string(name)) == 0) {
        return absl::InvalidArgumentError("fake: not wanted");
      }
      shadow_[std::string(name)] = bytes[0];
      return absl::OkStatus();
    });
  }

  Status prepare(std::string_view id) override {
    return act("prepare", [&]() -> Status {
      RLGEN_RETURN_IF_ERROR(check(id));
      if (!missing_.empty()) return absl::FailedPreconditionError("fake: tensors are missing");
      open_->prepared = true;
      return absl::OkStatus();
    });
  }

  Status commit(std::string_view id) override {
    return act("commit", [&]() -> Status {
      if (committed_ == id) return absl::OkStatus();
      RLGEN_RETURN_IF_ERROR(check(id));
      if (!open_->prepared) return absl::FailedPreconditionError("fake: not prepared");
      served_ = std::move(shadow_);
      version_ = open_->version;
      serial_ = open_->serial;
      committed_ = std::string(id);
      open_.reset();
      return absl::OkStatus();
    });
  }

  Status abort(std::string_view id) override {
    return act("abort", [&]() -> Status {
      if (committed_ == id) return absl::FailedPreconditionError("fake: committed");
      if (open_ && open_->update_id == id) open_.reset();
      return absl::OkStatus();
    });
  }

  Status rename(WeightVersion version) {
    return act("rename", [&]() -> Status {
      version_ = version;
      return absl::OkStatus();
    });
  }

  // The digest of a tensor is its byte.
  std::vector<ManifestEntry> checksums() const {
    const std::lock_guard lock(mutex_);
    std::vector<ManifestEntry> entries;
    for (const auto& [name, value] : served_) {
      entries.push_back({.name = name, .dtype = DType::kFloat32, .shape = {}, .digest = ""});
      entries.back().digest = std::to_string(std::to_integer<int>(value));
    }
    return entries;
  }
  StatusOr<TensorBytes> read(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(name);
    if (found == served_.end()) return absl::NotFoundError("fake: no such tensor");
    return TensorBytes{{.name = found->first, .dtype = DType::kFloat32, .shape = {}, .digest = {}},
                       {found->second}};
  }
  Tensors served() const {
    const std::lock_guard lock(mutex_);
    return served_;
  }
  WeightVersion version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }
  WeightSerial serial() const {
    const std::lock_guard lock(mutex_);
    return serial_;
  }
  std::optional<OpenUpdate> open_update() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  template <typename Body>
  Status act(std::string_view verb, const Body& body) {
    const std::lock_guard lock(mutex_);
    const Fault now = fault ? fault(verb) : Fault::kNone;
    if (now == Fault::kRefused) return absl::UnavailableError("fake: cannot be reached");
    const Status status = body();
    return now == Fault::kCutOff ? absl::UnavailableError("fake: answer lost") : status;
  }

  Status check(std::string_view id) const {
    if (open_ && open_->update_id == id) return absl::OkStatus();
    return absl::FailedPreconditionError("fake: update is not open");
  }

  mutable std::mutex mutex_;
  // All below are guarded by mutex_.
  std::optional<OpenUpdate> open_;
  std::set<std::string> missing_;
  std::set<std::string> ids_;
  Tensors shadow_;
  Tensors served_ = {{"a", std::byte{0}}, {"b", std::byte{0}}};
  WeightVersion version_ = 0;
  WeightSerial serial_ = 1;
  std::string committed_;
};

}  // namespace rlgen::generation
