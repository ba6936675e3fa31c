#include <algorithm>
#include <vector>

#include "base/scratch.h"
#include "kernels/ops.h"

// How the attention of a step is spread over threads: by sequence, rows and KV head, where many
// query heads share one by these too, and for a few rows that see many keys by chunks of keys. What
// is merged, and in which order, is the same in every case.
namespace rlgen::kernels {
namespace {

// Rows of one task; a sequence's later rows see more keys and come first.
constexpr int64_t kTaskRows = 32;
// A task with up to this many rows may be split by keys.
constexpr int64_t kSplitRows = 4;
// Query heads of one task at most, and at least where there would be fewer tasks than threads: each
// task reads its keys anew. Latent attention has one KV head for all of its query heads.
constexpr int32_t kMostHeads = 32;
constexpr int32_t kLeastHeads = 8;
// Keys that a piece must have to be worth a claim.
constexpr int64_t kPieceChunks = 2;
// Tasks for each thread above which there is nothing to even out.
constexpr int64_t kEnoughTasks = 8;

// One claim: a whole task, or some chunks of one.
struct Piece {
  AttentionTask task;
  ChunkRange chunks;
  int64_t sums = -1;  // where the sums of the task's chunks begin; -1: a whole task
};

struct Plan {
  std::vector<Piece> pieces;
  std::vector<Piece> merges;  // one for each task that is split
  int64_t sums = 0;           // floats for the sums of all chunks
};

// Query heads of each task; the last ones of a KV head may be fewer.
int32_t heads_of_task(const AttentionArgs& args, std::span<const AttentionSequence> sequences,
                      int64_t threads) {
  int64_t tasks = 0;
  for (const AttentionSequence& sequence : sequences) {
    tasks += (sequence.rows + kTaskRows - 1) / kTaskRows * args.kv.layout.kv_heads;
  }
  return std::min(args.heads / args.kv.layout.kv_heads, tasks < threads ? kLeastHeads : kMostHeads);
}

// Some rows of one KV head and sequence, for all query heads of that head.
void add_tasks(const AttentionArgs& args, AttentionTask rows, int32_t heads,
               std::vector<AttentionTask>* tasks) {
  const int32_t all = args.heads / args.kv.layout.kv_heads;
  for (int32_t first = 0; first < all; first += heads) {
    rows.first_head = first;
    rows.heads = std::min(heads, all - first);
    tasks->push_back(rows);
  }
}

std::vector<AttentionTask> whole_tasks(const AttentionArgs& args,
                                       std::span<const AttentionSequence> sequences,
                                       int64_t threads) {
  const int32_t heads = heads_of_task(args, sequences, threads);
  std::vector<AttentionTask> tasks;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t end = sequences[s].rows; end > 0; end -= kTaskRows) {
      for (int32_t kv_head = 0; kv_head < args.kv.layout.kv_heads; ++kv_head) {
        add_tasks(args,
                  {.sequence = int32_t(s),
                   .kv_head = kv_head,
                   .row_begin = std::max<int64_t>(0, end - kTaskRows),
                   .row_end = end},
                  heads, &tasks);
      }
    }
  }
  return tasks;
}

// The chunks of the keys that some row of the task sees.
ChunkRange chunks_seen(const AttentionArgs& args, const AttentionSequence& sequence,
                       const AttentionTask& task) {
  const int64_t first = sequence.first_position + task.row_begin;
  const int64_t begin = args.window > 0 ? std::max<int64_t>(0, first + 1 - args.window) : 0;
  const int64_t end = sequence.first_position + task.row_end;
  const int64_t all = (end + kAttentionChunkKeys - 1) / kAttentionChunkKeys;
  return {.begin = begin / kAttentionChunkKeys, .end = all, .all = all};
}

void split(const KernelContext& context, const AttentionArgs& args, const AttentionTask& task,
           ChunkRange seen, int64_t parts, Plan* plan) {
  const Piece whole{.task = task, .chunks = seen, .sums = plan->sums};
  plan->merges.push_back(whole);
  plan->sums += context.table->attention_sums(args, task) * seen.all;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t count = seen.end - seen.begin;
    Piece piece = whole;
    piece.chunks.begin = seen.begin + count * part / parts;
    piece.chunks.end = seen.begin + count * (part + 1) / parts;
    plan->pieces.push_back(piece);
  }
}

// Threads claim pieces in turn, so that of two whole tasks a thread has the one `threads` later
// next.
void foresee(std::span<const AttentionSequence> sequences, int64_t threads,
             std::vector<Piece>* pieces) {
  for (size_t i = 0; i + size_t(threads) < pieces->size(); ++i) {
    const AttentionTask& then = (*pieces)[i + size_t(threads)].task;
    (*pieces)[i].task.then = &sequences[size_t(then.sequence)];
    (*pieces)[i].task.then_kv_head = then.kv_head;
  }
}

Plan make_plan(const KernelContext& context, const AttentionArgs& args,
               std::span<const AttentionSequence> sequences) {
  Plan plan;
  const int64_t threads = context.pool->num_threads();
  const std::vector<AttentionTask> tasks = whole_tasks(args, sequences, threads);
  const bool enough = threads == 1 || int64_t(tasks.size()) >= threads * kEnoughTasks;
  for (const AttentionTask& task : tasks) {
    const ChunkRange seen = chunks_seen(args, sequences[size_t(task.sequence)], task);
    const int64_t parts = std::min((seen.end - seen.begin) / kPieceChunks, 2 * threads);
    if (enough || parts < 2 || task.row_end - task.row_begin > kSplitRows) {
      plan.pieces.push_back({.task = task, .chunks = {}});
    } else {
      split(context, args, task, seen, parts, &plan);
    }
  }
  if (plan.merges.empty()) foresee(sequences, threads, &plan.pieces);
  return plan;
}

// Of the calling thread, until it asks again.
float* task_scratch(const KernelContext& context, const AttentionArgs& args,
                    const AttentionTask& task) {
  thread_local std::vector<float> scratch;
  return grown(scratch, context.table->attention_scratch(args, task));
}

}  // namespace

bool attention_rounds(Profile profile, const KvLayout& layout) {
  return profile != Profile::kFloat32 && layout.dtype == DType::kBFloat16 && !layout.values_in_keys;
}

void attention(const KernelContext& context, const AttentionArgs& args,
               std::span<const AttentionSequence> sequences) {
  thread_local std::vector<float> sums_buffer;
  const KernelTable& table = *context.table;
  const bool rounds = attention_rounds(context.profile, args.kv.layout);
  const RoundedKernels& rounded = rounded_kernels(table, context.profile);
  const auto whole = rounds ? rounded.attention : table.attention;
  const auto chunks = rounds ? rounded.attention_chunks : table.attention_chunks;
  const Plan plan = make_plan(context, args, sequences);
  float* const sums = grown(sums_buffer, plan.sums);
  context.pool->run(int64_t(plan.pieces.size()), [&](int64_t i, int) {
    const Piece& piece = plan.pieces[size_t(i)];
    const AttentionSequence& sequence = sequences[size_t(piece.task.sequence)];
    float* scratch = task_scratch(context, args, piece.task);
    if (piece.sums < 0) return whole(args, sequence, piece.task, scratch);
    chunks(args, sequence, piece.task, piece.chunks, scratch, sums + piece.sums);
  });
  context.pool->run(int64_t(plan.merges.size()), [&](int64_t i, int) {
    const Piece& merge = plan.merges[size_t(i)];
    table.attention_merge(args, sequences[size_t(merge.task.sequence)], merge.task, merge.chunks,
                          task_scratch(context, args, merge.task), sums + merge.sums);
  });
}

}  // namespace rlgen::kernels
