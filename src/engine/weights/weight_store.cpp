#include "engine/weights/weight_store.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/hash.h"
#include "contract/manifest_error.h"

namespace rlgen::engine {

WeightStore::WeightStore(std::shared_ptr<const models::NameTable> table, WeightStoreOptions options)
    : names_(std::move(table)), options_(std::move(options)), timer_(options_.clock, [this] {
        std::lock_guard lock(mutex_);
        expire();
      }) {}

std::shared_ptr<const models::WeightSet> WeightStore::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

std::vector<ManifestEntry> WeightStore::manifest() const {
  std::lock_guard lock(mutex_);
  return manifest_;
}

StatusOr<WeightStore::Served> WeightStore::served() const {
  std::lock_guard lock(mutex_);
  if (spilled_) return absl::FailedPreconditionError("the weights stand down; wake the shard");
  if (!current_) return absl::FailedPreconditionError("no weights are served; send an update");
  return Served{current_, manifest_};
}

std::optional<OpenUpdate> WeightStore::open_update() const {
  std::lock_guard lock(mutex_);
  if (!open_ || is_late()) return std::nullopt;
  return OpenUpdate{.update_id = open_->spec().update_id,
                    .version = open_->weights()->version(),
                    .serial = open_->spec().serial,
                    .prepared = state_ == State::kPrepared || state_ == State::kCommitting};
}

int64_t WeightStore::staging_bytes() const {
  std::lock_guard lock(mutex_);
  return open_ ? open_->staging_bytes() : 0;
}

std::optional<UpdateReport> WeightStore::last_report() const {
  std::lock_guard lock(mutex_);
  return report_;
}

Status WeightStore::relabel(WeightVersion version) {
  if (version < 0) {
    return absl::InvalidArgumentError(
        fmt::format("version is {}; versions are not negative", version));
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_rest(); });
  if (label_.serial == 0) {
    return absl::FailedPreconditionError(
        fmt::format("no weights are served that version {} could name", version));
  }
  if (label_.version == version) return absl::OkStatus();
  if (!current_) {
    label_.version = version;
    return absl::OkStatus();
  }
  const auto renamed = std::make_shared<const models::WeightSet>(
      current_->shared_table(), current_->region(), version, current_->serial());
  relabelling_ = true;
  lock.unlock();
  Status flipped;
  if (options_.flip) flipped = options_.flip(renamed, KvPolicy::kKeep);
  lock.lock();
  relabelling_ = false;
  if (flipped.ok()) {
    current_ = renamed;
    label_.version = version;
  }
  changed_.notify_all();
  return flipped;
}

WeightStore::Label WeightStore::label() const {
  std::lock_guard lock(mutex_);
  return label_;
}

Status WeightStore::stand_down(bool keep) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_rest(); });
  expire();
  if (open_) {
    return absl::FailedPreconditionError(
        fmt::format("the weights cannot stand down while update {} is open; commit or abort it",
                    open_->spec().update_id));
  }
  if (current_ && keep) {
    RLGEN_ASSIGN_OR_RETURN(spilled_,
                           SpillFile::write(current_->region()->bytes(), options_.spill_folder));
  }
  current_.reset();
  if (!keep) {
    spilled_.reset();
    label_.serial = 0;
  }
  if (serving_) serving_->pool->release();
  return absl::OkStatus();
}

Status WeightStore::wake() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_rest(); });
  if (current_ || !spilled_) return absl::OkStatus();
  RLGEN_ASSIGN_OR_RETURN(auto region, serving_->pool->lend());
  if (const Status read = spilled_->read(region->bytes()); !read.ok()) {
    region.reset();
    serving_->pool->release();
    return read;
  }
  current_ = std::make_shared<const models::WeightSet>(serving_->table, std::move(region),
                                                       label_.version, label_.serial);
  spilled_.reset();
  return absl::OkStatus();
}

bool WeightStore::at_rest() const {
  const bool moving = open_ && (state_ == State::kPreparing || state_ == State::kCommitting);
  return !moving && !relabelling_;
}

void WeightStore::close(UpdateOutcome outcome) {
  ended_.add(open_->spec().update_id, outcome);
  open_.reset();
  deadline_.reset();
  timer_.clear();
  opening_ = {};
}

bool WeightStore::is_late() const {
  const bool droppable = open_ && (state_ == State::kReceiving || state_ == State::kPrepared);
  return droppable && deadline_ && options_.clock->now() >= *deadline_;
}

void WeightStore::expire() {
  if (is_late()) close(UpdateOutcome::kExpired);
}

// The deadline may have come while the update could not be dropped.
void WeightStore::watch_deadline() {
  if (open_ && deadline_) timer_.set(*deadline_).IgnoreError();  // its thread is there
}

Status WeightStore::check_open(std::string_view update_id) const {
  if (open_ && open_->spec().update_id == update_id) return absl::OkStatus();
  return ended_.refusal(update_id);
}

Status WeightStore::check_spec(const UpdateSpec& spec) const {
  const std::string& id = spec.update_id;
  if (open_) {
    return absl::FailedPreconditionError(
        fmt::format("update {} cannot begin while update {} is open", id, open_->spec().update_id));
  }
  if (id.empty()) return absl::InvalidArgumentError("update_id is empty");
  if (ended_.contains(id)) {
    return absl::InvalidArgumentError(fmt::format("update {} was used before; ids are unique", id));
  }
  if (spec.version && *spec.version < 0) {
    return absl::InvalidArgumentError(
        fmt::format("update {}: version is {}; versions are not negative", id, *spec.version));
  }
  if (spec.serial == 0 || serials_.contains(spec.serial)) {
    return absl::InvalidArgumentError(
        fmt::format("update {}: serial {} is not new; each update has a serial of its own, not 0",
                    id, spec.serial));
  }
  return check_base(spec);
}

Status WeightStore::check_base(const UpdateSpec& spec) const {
  if (!spec.base) return absl::OkStatus();
  if (!current_) {
    return absl::FailedPreconditionError(
        fmt::format("update {}: its base is version {} and no weights are served; send all tensors",
                    spec.update_id, *spec.base));
  }
  if (*spec.base != current_->version()) {
    return absl::FailedPreconditionError(
        fmt::format("update {}: its base is version {} and version {} is served; send all tensors",
                    spec.update_id, *spec.base, current_->version()));
  }
  return absl::OkStatus();
}

Status WeightStore::check_manifest(const UpdateSpec& spec) const {
  std::set<std::string_view> names;
  bool any_known = false;
  for (const ManifestEntry& entry : spec.manifest) {
    if (!names.insert(entry.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("update {}: the manifest lists tensor {} twice", spec.update_id, entry.name));
    }
    if (!entry.digest.empty() && !parse_digest(entry.digest)) {
      return absl::InvalidArgumentError(fmt::format(
          "tensor {}: digest '{}' is not 32 hexadecimal digits", entry.name, entry.digest));
    }
    any_known = any_known || names_->find(entry.name) != nullptr;
  }
  if (any_known || !spec.base) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("update {}: its manifest lists no tensor that the model has", spec.update_id));
}

// Each listed tensor has a weight type, and that which is stored under its name or is to be cast.
Status WeightStore::check_types(const UpdateSpec& spec) const {
  for (const ManifestEntry& entry : spec.manifest) {
    if (names_->ignores(entry.name)) continue;
    if (!is_weight_type(entry.dtype)) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: type {} is no weight type (float32, bfloat16, float16)",
                      entry.name, torch_name(entry.dtype)));
    }
    if (!serving_ || spec.cast) continue;
    const auto stored = serving_->stored.find(entry.name);
    if (stored == serving_->stored.end() || stored->second == entry.dtype) continue;
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: sent as {} and stored as {}; set cast to convert", entry.name,
                    torch_name(entry.dtype), torch_name(stored->second)));
  }
  return absl::OkStatus();
}

StatusOr<WeightStore::Layout> WeightStore::layout_for(const UpdateSpec& spec) const {
  RLGEN_RETURN_IF_ERROR(check_types(spec));
  std::vector<ManifestEntry> as_stored = spec.manifest;
  if (spec.base) as_stored = with_rest(std::move(as_stored), manifest_, *serving_->table);
  Layout layout;
  if (serving_) layout = *serving_;
  for (ManifestEntry& entry : as_stored) {
    const auto stored = layout.stored.find(entry.name);
    if (stored != layout.stored.end()) entry.dtype = stored->second;
  }
  models::NameTable table = *names_;
  RLGEN_RETURN_IF_ERROR(models::resolve_layout(as_stored, &table));
  for (const ManifestEntry& entry : as_stored) {
    layout.stored.emplace(entry.name, table.dtype.value_or(entry.dtype));
  }
  add_other_names(table, &layout.stored);
  if (!serving_) {
    layout.pool = std::make_shared<RegionPool>(int64_t(table.total_bytes), options_.region_kind);
    layout.table = std::make_shared<const models::NameTable>(std::move(table));
  }
  return layout;
}

Status WeightStore::begin(const UpdateSpec& spec) {
  std::lock_guard lock(mutex_);
  expire();
  RLGEN_RETURN_IF_ERROR(check_spec(spec));
  RLGEN_RETURN_IF_ERROR(manifest_error(check_manifest(spec)));
  auto layout = layout_for(spec);
  if (!layout.ok()) return manifest_error(layout.status());
  opening_ = *std::move(layout);
  RLGEN_ASSIGN_OR_RETURN(auto region, opening_.pool->lend());
  if (spec.base) std::memcpy(region->data(), current_->region()->data(), size_t(region->size()));
  if (spec.deadline) {
    const Clock::TimePoint deadline = options_.clock->now() + *spec.deadline;
    RLGEN_RETURN_IF_ERROR(timer_.set(deadline));
    deadline_ = deadline;
  }
  UpdateSpec resolved = spec;
  if (!resolved.version) resolved.version = label_.serial == 0 ? 0 : label_.version + 1;
  open_ = std::make_shared<WeightUpdate>(std::move(resolved), opening_.table, std::move(region),
                                         current_);
  state_ = State::kReceiving;
  serials_.insert(spec.serial);
  return absl::OkStatus();
}

Status WeightStore::write(std::string_view update_id, std::string_view name, size_t offset,
                          std::span<const std::byte> bytes) {
  std::shared_ptr<WeightUpdate> update;
  {
    std::lock_guard lock(mutex_);
    expire();
    RLGEN_RETURN_IF_ERROR(check_open(update_id));
    if (state_ != State::kReceiving) {
      return absl::FailedPreconditionError(
          fmt::format("update {} is prepared and takes no more bytes", update_id));
    }
    update = open_;
  }
  return annotate(update->write(name, offset, bytes), fmt::format("update {}", update_id));
}

Status WeightStore::prepare(std::string_view update_id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !open_ || state_ != State::kPreparing; });
  expire();
  RLGEN_RETURN_IF_ERROR(check_open(update_id));
  if (state_ != State::kReceiving) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(open_->check_complete());
  state_ = State::kPreparing;
  const std::shared_ptr<WeightUpdate> update = open_;
  lock.unlock();
  const Status verified = update->verify();
  if (verified.ok()) update->count();
  lock.lock();
  state_ = State::kPrepared;
  if (!verified.ok()) close(UpdateOutcome::kAborted);
  watch_deadline();
  changed_.notify_all();
  return annotate(verified, fmt::format("update {} is dropped", update_id));
}

Status WeightStore::commit(std::string_view update_id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_rest(); });
  expire();
  if (ended_.is_committed(update_id)) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(check_open(update_id));
  if (state_ != State::kPrepared) {
    return absl::FailedPreconditionError(
        fmt::format("update {} is not prepared; prepare comes first", update_id));
  }
  state_ = State::kCommitting;
  const std::shared_ptr<WeightUpdate> update = open_;
  lock.unlock();
  Status flipped;
  if (options_.flip) flipped = options_.flip(update->weights(), update->spec().kv_policy);
  lock.lock();
  state_ = State::kPrepared;
  if (flipped.ok()) {
    current_ = update->weights();
    label_ = {current_->version(), current_->serial()};
    spilled_.reset();
    serving_ = opening_;
    auto served = as_served(update->spec().manifest, *serving_->table);
    manifest_ = update->spec().base ? with_rest(std::move(served), manifest_, *serving_->table)
                                    : std::move(served);
    report_ = update->report();
    close(UpdateOutcome::kCommitted);
  }
  watch_deadline();
  changed_.notify_all();
  return flipped;
}

Status WeightStore::abort(std::string_view update_id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_rest(); });
  expire();
  if (ended_.is_dropped(update_id)) return absl::OkStatus();
  RLGEN_RETURN_IF_ERROR(check_open(update_id));
  close(UpdateOutcome::kAborted);
  return absl::OkStatus();
}

}  // namespace rlgen::engine
