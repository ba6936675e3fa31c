#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "contract/weight_sink.h"
#include "models/decoder_spec.h"
#include "models/weights.h"

// A small made-up table and tensors for the tests of this folder.
namespace rlgen::engine::test {

inline std::shared_ptr<const models::NameTable> small_table() {
  auto table = std::make_shared<models::NameTable>();
  table->slots = {{.name = "embedding", .n = 40, .k = 6},
                  {.name = "norm", .kind = models::SlotKind::kVector, .n = 1, .k = 6},
                  {.name = "qkv", .n = 48, .k = 5}};
  table->entries = {{.name = "embed", .shape = {40, 6}, .slot = 0},
                    {.name = "head", .shape = {40, 6}, .slot = 0, .optional = true},
                    {.name = "k", .shape = {8, 5}, .slot = 2, .row = 32},
                    {.name = "norm", .shape = {6}, .slot = 1},
                    {.name = "q", .shape = {32, 5}, .slot = 2},
                    {.name = "v", .shape = {8, 5}, .slot = 2, .row = 40}};
  return table;
}

// A decoder of two layers of experts, so small that most of its rows end within a tile.
inline models::DecoderSpec tiny_expert_spec(const std::string& family,
                                            const models::ExpertSpec& experts) {
  models::DecoderSpec spec{.family = family,
                           .vocab_rows = 24,
                           .hidden = 20,
                           .layers = 2,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 8,
                           .intermediate = 9};
  spec.experts = experts;
  spec.layer.assign(2, {.sparse = true});
  return spec;
}

// Two matrices of 32 MiB in one slot: so large that the heap keeps nothing of what is freed.
inline std::shared_ptr<const models::NameTable> large_table() {
  auto table = std::make_shared<models::NameTable>();
  table->slots = {{.name = "large", .n = 8192, .k = 4096}};
  table->entries = {{.name = "w0", .shape = {4096, 4096}, .slot = 0},
                    {.name = "w1", .shape = {4096, 4096}, .slot = 0, .row = 4096}};
  return table;
}

// The tensors that must arrive, matrices and vectors in `dtype`.
inline std::vector<ManifestEntry> manifest_of(const models::NameTable& table,
                                              DType dtype = DType::kBFloat16) {
  std::vector<ManifestEntry> manifest;
  for (const models::WeightEntry& entry : table.entries) {
    if (!entry.optional)
      manifest.push_back({.name = entry.name, .dtype = dtype, .shape = entry.shape});
  }
  return manifest;
}

inline std::vector<ManifestEntry> small_manifest(DType dtype = DType::kBFloat16) {
  return manifest_of(*small_table(), dtype);
}

// The update with that serial, which is its version too, of all tensors.
inline UpdateSpec numbered(WeightSerial serial) {
  return {.update_id = "u" + std::to_string(serial),
          .version = WeightVersion(serial),
          .serial = serial,
          .manifest = small_manifest()};
}

// Bytes that differ between tensors, places and seeds; finite in every weight type.
inline std::vector<std::byte> tensor_bytes(const ManifestEntry& entry, int seed) {
  std::vector<std::byte> bytes(size_t(entry.shape.num_elements() * size_of(entry.dtype)));
  uint32_t state =
      uint32_t(seed) * 2654435761u + uint32_t(entry.name.size() * 97 + uint8_t(entry.name[0]));
  const size_t size = size_t(size_of(entry.dtype));
  for (size_t i = 0; i < bytes.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    // The top byte of an element holds the exponent; keep it away from infinity.
    bytes[i] = std::byte((state >> 24) & (i % size == size - 1 ? 0xbfu : 0xffu));
    if (i % size == size - 1) bytes[i] &= std::byte(0xbb);
  }
  return bytes;
}

// Writes every tensor of the manifest of an open update, with the bytes of `seed`.
inline Status write_all(WeightSink* sink, const UpdateSpec& spec, int seed) {
  for (const ManifestEntry& entry : spec.manifest) {
    RLGEN_RETURN_IF_ERROR(sink->write(spec.update_id, entry.name, 0, tensor_bytes(entry, seed)));
  }
  return absl::OkStatus();
}

// A range of bytes of one tensor.
struct TensorPiece {
  const ManifestEntry* entry = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

// Ranges that end anywhere and together are all of an update, in any order.
inline std::vector<TensorPiece> cut_anywhere(const UpdateSpec& spec, std::mt19937& random) {
  std::vector<TensorPiece> pieces;
  for (const ManifestEntry& entry : spec.manifest) {
    const auto size = size_t(entry.shape.num_elements() * size_of(entry.dtype));
    for (size_t begin = 0; begin < size; begin = pieces.back().end) {
      pieces.push_back({&entry, begin, std::min(size, begin + 1 + random() % 150)});
    }
  }
  std::ranges::shuffle(pieces, random);
  return pieces;
}

// Writes a range of the bytes of `seed`.
inline Status write_piece(WeightSink* sink, const UpdateSpec& spec, const TensorPiece& piece,
                          int seed) {
  const auto bytes = tensor_bytes(*piece.entry, seed);
  return sink->write(spec.update_id, piece.entry->name, piece.begin,
                     std::span(bytes).subspan(piece.begin, piece.end - piece.begin));
}

// A whole update, from begin to commit.
inline Status run_update(WeightSink* sink, const UpdateSpec& spec, int seed) {
  RLGEN_RETURN_IF_ERROR(sink->begin(spec));
  RLGEN_RETURN_IF_ERROR(write_all(sink, spec, seed));
  RLGEN_RETURN_IF_ERROR(sink->prepare(spec.update_id));
  return sink->commit(spec.update_id);
}

}  // namespace rlgen::engine::test
