#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/kernel_test.h"

// Made-up attention for tests: a shape, queries, keys and values that follow from it, and one
// sequence of them.
namespace rlgen::kernels::test {

struct Shape {
  int32_t heads = 3;
  int32_t kv_heads = 1;
  int32_t head_dim = 16;
  int32_t value_dim = 16;
  int32_t block_size = 16;
  DType dtype = DType::kFloat32;
  int64_t window = 0;
  bool sinks = false;
  bool values_in_keys = false;
  Profile profile = Profile::kFloat32;  // of the products
  // Factors of the data, powers of 2: with small ones products are subnormal. The scale makes up
  // for those of queries and keys.
  float key_size = 1.0f;
  float value_size = 1.0f;
};

inline bool rounds(const Shape& shape) { return shape.profile != Profile::kFloat32; }

// One or two of everything that the kernels take another way for.
inline std::vector<Shape> plain_shapes() {
  return {
      {.heads = 1, .kv_heads = 1, .head_dim = 8, .value_dim = 8},
      {.heads = 3, .kv_heads = 1, .head_dim = 64, .value_dim = 64},
      {.heads = 4, .kv_heads = 2, .head_dim = 20, .value_dim = 36, .dtype = DType::kBFloat16},
      {.heads = 8, .kv_heads = 1, .head_dim = 16, .value_dim = 80, .dtype = DType::kFloat16},
      {.heads = 7, .kv_heads = 1, .head_dim = 12, .value_dim = 128, .window = 37},
      {.heads = 5, .kv_heads = 1, .head_dim = 16, .value_dim = 16, .block_size = 48, .window = 300},
      {.heads = 6, .kv_heads = 2, .head_dim = 24, .value_dim = 40, .window = 37, .sinks = true},
      {.heads = 8, .kv_heads = 1, .dtype = DType::kBFloat16, .sinks = true},
      {.heads = 9, .kv_heads = 1, .head_dim = 47, .value_dim = 35, .values_in_keys = true},
      {.heads = 13,
       .kv_heads = 1,
       .head_dim = 72,
       .value_dim = 64,
       .block_size = 32,
       .dtype = DType::kBFloat16,
       .values_in_keys = true},
  };
}

// Those of which products are rounded, without their profile.
inline std::vector<Shape> shapes_to_round() {
  return {
      {.heads = 3, .head_dim = 64, .value_dim = 64, .dtype = DType::kBFloat16},
      {.heads = 7, .head_dim = 13, .value_dim = 35, .dtype = DType::kBFloat16, .window = 37},
      {.heads = 6,
       .kv_heads = 2,
       .head_dim = 24,
       .value_dim = 81,
       .block_size = 48,
       .dtype = DType::kBFloat16,
       .window = 300,
       .sinks = true},
      // Many rows at one position, in whole tile registers and not.
      {.heads = 7, .head_dim = 40, .value_dim = 48, .dtype = DType::kBFloat16, .window = 300},
      {.heads = 20,
       .head_dim = 33,
       .value_dim = 16,
       .dtype = DType::kBFloat16,
       .window = 37,
       .sinks = true},
      {.heads = 35, .head_dim = 32, .value_dim = 32, .dtype = DType::kBFloat16},
      // Products around the least normal number.
      {.heads = 8,
       .head_dim = 32,
       .value_dim = 32,
       .dtype = DType::kBFloat16,
       .key_size = 0x1p-61f,
       .value_size = 0x1p-122f},
      {.heads = 4,
       .head_dim = 17,
       .value_dim = 20,
       .dtype = DType::kBFloat16,
       .key_size = 0x1p-61f,
       .value_size = 0x1p-122f},
  };
}

inline std::vector<Shape> shapes() {
  std::vector<Shape> all = plain_shapes();
  for (const Profile profile : {Profile::kBFloat16, Profile::kBFloat16Amx}) {
    for (Shape shape : shapes_to_round()) {
      shape.profile = profile;
      all.push_back(shape);
    }
  }
  return all;
}

// Which number of the data, in [-1, 1): what a position, a head and a dimension have, whatever the
// layout.
inline float number(uint64_t kind, int64_t position, int64_t head, int64_t d) {
  auto bits = static_cast<uint64_t>((position * 64 + head) * 512 + d) * 4 + kind;
  for (int round = 0; round < 2; ++round) {
    bits *= 0x9e3779b97f4a7c15u;
    bits ^= bits >> 32;
  }
  return static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;
}

// The sink of a head, in [-6, 6): some far above the scores, some far below.
inline float sink(int64_t head) { return 6.0f * number(0, 0, head, 0); }

// One sequence with `keys` keys in blocks that stand backwards and with gaps; all other memory is
// NaN.
class Sequence {
 public:
  Sequence(const KernelTable& table, const Shape& shape, int64_t keys)
      : table_(table), shape_(shape) {
    layout_ = {.dtype = shape.dtype,
               .layers = 2,
               .kv_heads = shape.kv_heads,
               .head_dim = shape.head_dim,
               .value_dim = shape.value_dim,
               .values_in_keys = shape.values_in_keys,
               .block_size = shape.block_size};
    const int64_t blocks = (keys + shape.block_size - 1) / shape.block_size;
    for (int64_t i = 0; i < blocks; ++i) {
      table_of_blocks_.push_back(static_cast<int32_t>(2 * (blocks - i) - 1));
    }
    memory_.assign(layout_.block_stride() * static_cast<size_t>(2 * blocks) / sizeof(float),
                   std::bit_cast<float>(~0u));
    for (int64_t position = 0; position < keys; ++position) store(position);
    for (int32_t head = 0; head < shape.heads; ++head) sinks_.push_back(sink(head));
  }

  KvCacheView view() {
    return {.data = reinterpret_cast<std::byte*>(memory_.data()), .layout = layout_};
  }

  // Sets key and value of a position, of every KV head, to one number.
  void spoil(int64_t position, float value) {
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      std::vector<float> k(shape_.head_dim, value);
      std::vector<float> v(shape_.value_dim, value);
      write(position, head, k, v);
    }
  }

  // Rows for positions first .. first + rows - 1, computed in the given cuts: [rows][heads][dim].
  std::vector<float> attend(int64_t first, int64_t rows, const std::vector<int64_t>& cuts = {}) {
    const int64_t q_width = int64_t{shape_.heads} * shape_.head_dim;
    const int64_t out_width = int64_t{shape_.heads} * shape_.value_dim;
    std::vector<float> q(rows * q_width);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < q_width; ++i) {
        q[row * q_width + i] =
            shape_.key_size * number(3, first + row, i / shape_.head_dim, i % shape_.head_dim);
      }
    }
    std::vector<float> out(rows * out_width, -9.0f);
    const AttentionArgs args{.q = q.data(),
                             .ldq = q_width,
                             .out = out.data(),
                             .ldo = out_width,
                             .heads = shape_.heads,
                             .kv = view(),
                             .layer = 1,
                             .scale = scale(),
                             .window = shape_.window,
                             .sinks = shape_.sinks ? sinks_.data() : nullptr};
    const AttentionSequence sequence{.block_table = table_of_blocks_.data(),
                                     .first_row = 0,
                                     .rows = rows,
                                     .first_position = first};
    std::vector<int64_t> edges = {0, rows};
    edges.insert(edges.end(), cuts.begin(), cuts.end());
    std::sort(edges.begin(), edges.end());
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      for (int32_t head = 0; head < shape_.kv_heads; ++head) {
        if (edges[i] == edges[i + 1]) continue;
        attend_heads(args, sequence, {0, head, edges[i], edges[i + 1]});
      }
    }
    return out;
  }

  // From now on every head has that sink.
  void set_sinks(float value) {
    shape_.sinks = true;
    std::ranges::fill(sinks_, value);
  }

  // From now on rows are attended to by pieces of so many chunks of keys, the last piece first.
  void cut_keys(int64_t chunks) { piece_ = chunks; }
  // From now on so many query heads of a KV head go together; 0: all.
  void cut_heads(int32_t heads) { heads_ = heads; }

  float scale() const {
    return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)) / shape_.key_size /
           shape_.key_size;
  }

 private:
  void attend_heads(const AttentionArgs& args, const AttentionSequence& sequence,
                    AttentionTask task) {
    const int32_t sharing = shape_.heads / shape_.kv_heads;
    const int32_t together = heads_ == 0 ? sharing : heads_;
    for (; task.first_head < sharing; task.first_head += together) {
      task.heads = heads_ == 0 ? 0 : std::min(together, sharing - task.first_head);
      std::vector<float> scratch(table_.attention_scratch(args, task), std::bit_cast<float>(~0u));
      if (piece_ == 0) {
        const auto attend =
            rounds(shape_) ? rounded_kernels(table_, shape_.profile).attention : table_.attention;
        attend(args, sequence, task, scratch.data());
      } else {
        attend_in_pieces(args, sequence, task, scratch.data());
      }
    }
  }

  void attend_in_pieces(const AttentionArgs& args, const AttentionSequence& sequence,
                        const AttentionTask& task, float* scratch) {
    const int64_t end = sequence.first_position + task.row_end;
    const ChunkRange all = {0, (end + kAttentionChunkKeys - 1) / kAttentionChunkKeys,
                            (end + kAttentionChunkKeys - 1) / kAttentionChunkKeys};
    std::vector<float> sums(table_.attention_sums(args, task) * all.all, std::bit_cast<float>(~0u));
    for (int64_t begin = (all.all - 1) / piece_ * piece_; begin >= 0; begin -= piece_) {
      const ChunkRange piece = {begin, std::min(begin + piece_, all.all), all.all};
      const auto attend = rounds(shape_) ? rounded_kernels(table_, shape_.profile).attention_chunks
                                         : table_.attention_chunks;
      attend(args, sequence, task, piece, scratch, sums.data());
    }
    table_.attention_merge(args, sequence, task, all, scratch, sums.data());
  }

  void store(int64_t position) {
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      std::vector<float> k(shape_.head_dim);
      std::vector<float> v(shape_.value_dim);
      for (int32_t d = 0; d < shape_.head_dim; ++d) {
        k[d] = shape_.key_size * number(1, position, head, d);
      }
      for (int32_t d = 0; d < shape_.value_dim; ++d) {
        v[d] = shape_.value_size * number(2, position, head, d);
      }
      write(position, head, k, v);
    }
  }

  void write(int64_t position, int32_t head, const std::vector<float>& k,
             const std::vector<float>& v) {
    const int32_t block = table_of_blocks_[position / shape_.block_size];
    table_.store_kv(layout_, view().head(block, 1, head),
                    static_cast<int32_t>(position % shape_.block_size), k.data(), v.data());
  }

  const KernelTable& table_;
  Shape shape_;
  KvLayout layout_;
  std::vector<int32_t> table_of_blocks_;
  std::vector<float> memory_;
  std::vector<float> sinks_;
  int64_t piece_ = 0;  // 0: whole
  int32_t heads_ = 0;  // 0: all
};

inline int64_t first_key(const Shape& shape, int64_t position) {
  return shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
}

// As the products read them.
inline float query(const Shape& shape, int64_t position, int64_t head, int64_t d) {
  const float q = shape.key_size * number(3, position, head, d);
  return rounds(shape) ? stored(DType::kBFloat16, q) : q;
}

inline float key(const Shape& shape, int64_t position, int64_t head, int64_t d) {
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  return stored(shape.dtype, shape.key_size * number(1, position, kv_head, d));
}

inline float value(const Shape& shape, int64_t position, int64_t head, int64_t d) {
  if (shape.values_in_keys) return key(shape, position, head, d);
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  return stored(shape.dtype, shape.value_size * number(2, position, kv_head, d));
}

}  // namespace rlgen::kernels::test
