#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rlgen::kernels {

// Keys that lie in the lanes of one tile.
inline constexpr int kTileKeys = 16;

// How one KV block of one layer looks in memory. Per KV head, one after the other:
//   K  [block_size/16][head_dim][16]   16 keys in the lanes
//   V  [block_size][value_dim]; none where values_in_keys: a key's value is then its first
//      value_dim elements (latent attention, whose one head has a latent with a rotated part
//      behind it as the key and the latent alone as the value)
// All bytes of a block of all layers lie together: block b, layer l, head h start at
//   b * block_stride + l * layer_stride + h * head_stride.
// `side_bytes` per block follow the layers (rows that travel with the block, such as routes).
struct KvLayout {
  DType dtype = DType::kFloat32;  // kFloat32 or kBFloat16 or kFloat16
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  bool values_in_keys = false;     // value_dim is at most head_dim then
  int32_t block_size = kTileKeys;  // keys, a multiple of kTileKeys
  size_t side_bytes = 0;

  [[gnu::always_inline]] size_t value_offset() const {
    return size_t(block_size) * size_t(head_dim) * size_of(dtype);
  }
  [[gnu::always_inline]] size_t head_stride() const {
    const int32_t stored = values_in_keys ? head_dim : head_dim + value_dim;
    return size_t(block_size) * size_t(stored) * size_of(dtype);
  }
  [[gnu::always_inline]] size_t layer_stride() const { return head_stride() * size_t(kv_heads); }
  [[gnu::always_inline]] size_t side_offset() const { return layer_stride() * size_t(layers); }
  [[gnu::always_inline]] size_t block_stride() const {
    return (side_offset() + side_bytes + 63) / 64 * 64;
  }
};

// The memory of all blocks of an engine; block ids index it.
struct KvCacheView {
  std::byte* data = nullptr;
  KvLayout layout;

  [[gnu::always_inline]] std::byte* head(int32_t block, int32_t layer, int32_t kv_head) const {
    return data + size_t(block) * layout.block_stride() + size_t(layer) * layout.layer_stride() +
           size_t(kv_head) * layout.head_stride();
  }
};

}  // namespace rlgen::kernels
