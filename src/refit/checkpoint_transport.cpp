#include "refit/checkpoint_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/file.h"
#include "models/weights.h"

namespace rlgen::refit {
namespace {

using models::StoredTensor;

constexpr size_t kPieceBytes = size_t(4) << 20;
constexpr int64_t kRowGroup = 16;  // packing is quickest for whole groups of 16 rows

struct Piece {
  const StoredTensor* tensor = nullptr;
  size_t offset = 0;
  size_t size = 0;
};

void add_pieces(const StoredTensor& tensor, std::vector<Piece>* pieces) {
  const size_t total = tensor.bytes.size();
  const int64_t rows = tensor.shape.rank() == 0 ? 1 : std::max<int64_t>(tensor.shape[0], 1);
  const size_t group = total / size_t(rows) * kRowGroup;
  const size_t step =
      group == 0 ? std::max<size_t>(total, 1) : std::max<size_t>(kPieceBytes / group, 1) * group;
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

Status write_pieces(const std::vector<Piece>& pieces, const std::string& update_id,
                    WeightSink& sink, ThreadPool* pool) {
  FirstError error;
  const auto write = [&](int64_t task, int) {
    const Piece& piece = pieces[size_t(task)];
    if (error.failed()) return;
    const auto bytes = piece.tensor->bytes.subspan(piece.offset, piece.size);
    const Status status = sink.write(update_id, piece.tensor->name, piece.offset, bytes);
    drop_pages(bytes);
    if (!status.ok()) {
      error.set(annotate(status,
                         fmt::format("{}: tensor \"{}\"", piece.tensor->file, piece.tensor->name)));
    }
  };
  if (pool != nullptr) {
    pool->run(int64_t(pieces.size()), write);
  } else {
    for (size_t i = 0; i < pieces.size(); ++i) write(int64_t(i), 0);
  }
  return error.take();
}

Status fill_and_commit(const std::vector<Piece>& pieces, const std::string& update_id,
                       WeightSink& sink, ThreadPool* pool) {
  RLGEN_RETURN_IF_ERROR(write_pieces(pieces, update_id, sink, pool));
  RLGEN_RETURN_IF_ERROR(sink.prepare(update_id));
  return sink.commit(update_id);
}

}  // namespace

Status send_checkpoint(const models::SafetensorsFolder& folder, UpdateSpec spec, WeightSink& sink,
                       ThreadPool* pool) {
  std::vector<Piece> pieces;
  spec.manifest.clear();
  for (const StoredTensor& tensor : folder.tensors()) {
    if (models::is_ignorable_tensor(tensor.name)) continue;
    spec.manifest.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
    add_pieces(tensor, &pieces);
  }
  RLGEN_RETURN_IF_ERROR(sink.begin(spec));
  const Status sent = fill_and_commit(pieces, spec.update_id, sink, pool);
  if (sent.ok()) return sent;
  const Status aborted = sink.abort(spec.update_id);
  if (aborted.ok()) return sent;
  return annotate(sent, fmt::format("update {} (its abort failed too: {})", spec.update_id,
                                    message_of(aborted)));
}

}  // namespace rlgen::refit
