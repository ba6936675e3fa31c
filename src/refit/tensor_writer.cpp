#include "refit/tensor_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace rlgen::refit {
namespace {

constexpr size_t kPieceBytes = size_t(4) << 20;
constexpr int64_t kRowGroup = 16;  // packing is quickest for whole groups of 16 rows

struct Piece {
  const TensorSource* tensor = nullptr;
  size_t offset = 0;
  size_t size = 0;
};

// Of a matrix, or of several below each other; elements of a vector.
int64_t rows_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank < 2 || shape[rank - 1] == 0) return std::max<int64_t>(shape.num_elements(), 1);
  return std::max<int64_t>(shape.num_elements() / shape[rank - 1], 1);
}

void add_pieces(const TensorSource& tensor, std::vector<Piece>* pieces) {
  const size_t total = tensor.bytes.size();
  const size_t group = total / size_t(rows_of(tensor.shape)) * kRowGroup;
  const size_t step = tensor.whole || group == 0 ? std::max<size_t>(total, 1)
                                                 : std::max<size_t>(kPieceBytes / group, 1) * group;
  size_t offset = 0;
  do {
    const size_t size = std::min(step, total - offset);
    pieces->push_back({&tensor, offset, size});
    offset += size;
  } while (offset < total);
}

// Keeps the first error and tells the other writers to stop.
class FirstError {
 public:
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  void set(Status status) {
    std::lock_guard lock(mutex_);
    if (!failed()) status_ = std::move(status);
    failed_.store(true, std::memory_order_relaxed);
  }
  Status take() { return std::move(status_); }

 private:
  std::mutex mutex_;
  Status status_;  // guarded by mutex_ while writers run
  std::atomic<bool> failed_{false};
};

std::string name_for(const TensorSource& tensor) {
  if (tensor.origin.empty()) return fmt::format("tensor \"{}\"", tensor.name);
  return fmt::format("{}: tensor \"{}\"", tensor.origin, tensor.name);
}

Status prepare_and_commit(std::string_view update_id, WeightSink& sink) {
  RLGEN_RETURN_IF_ERROR(sink.prepare(update_id));
  return sink.commit(update_id);
}

}  // namespace

Status write_tensors(std::span<const TensorSource> tensors, std::string_view update_id,
                     WeightSink& sink, ThreadPool* pool,
                     absl::FunctionRef<void(std::span<const std::byte>)> done) {
  std::vector<Piece> pieces;
  for (const TensorSource& tensor : tensors) add_pieces(tensor, &pieces);
  FirstError error;
  const auto write = [&](int64_t task, int) {
    const Piece& piece = pieces[size_t(task)];
    if (error.failed()) return;
    const auto bytes = piece.tensor->bytes.subspan(piece.offset, piece.size);
    const Status status = sink.write(update_id, piece.tensor->name, piece.offset, bytes);
    done(bytes);
    if (!status.ok()) error.set(annotate(status, name_for(*piece.tensor)));
  };
  if (pool != nullptr) {
    pool->run(int64_t(pieces.size()), write);
  } else {
    for (size_t i = 0; i < pieces.size(); ++i) write(int64_t(i), 0);
  }
  return error.take();
}

Status finish_update(Status written, std::string_view update_id, WeightSink& sink) {
  const Status sent = written.ok() ? prepare_and_commit(update_id, sink) : std::move(written);
  if (sent.ok()) return sent;
  const Status aborted = sink.abort(update_id);
  if (aborted.ok()) return sent;
  return annotate(
      sent, fmt::format("update {} (its abort failed too: {})", update_id, message_of(aborted)));
}

}  // namespace rlgen::refit
