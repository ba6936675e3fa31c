#include "models/weights.h"

#include <algorithm>
#include <cstring>

#include "tensor/bfloat16.h"

namespace rlgen::models {
namespace {

float load_element(const std::byte* source, DType dtype) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, source, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return dtype == DType::kBFloat16 ? float_from_bf16(bits) : float_from_f16(bits);
}

void store_element(float value, DType dtype, std::byte* destination) {
  if (dtype == DType::kFloat32) {
    std::memcpy(destination, &value, sizeof value);
    return;
  }
  const uint16_t bits = dtype == DType::kBFloat16 ? bf16_from_float(value) : f16_from_float(value);
  std::memcpy(destination, &bits, sizeof bits);
}

void convert(const std::byte* source, DType from, int64_t count, DType to, std::byte* destination) {
  if (from == to) {
    std::memcpy(destination, source, size_t(count) * size_t(size_of(to)));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    store_element(load_element(source + i * size_of(from), from), to,
                  destination + i * size_of(to));
  }
}

// Calls f(bytes before the matrix, its row, rows, rows before) for each matrix of a slot that rows
// [row, row + rows), counted over all of them, touch.
template <typename F>
void for_each_matrix(const WeightSlot& slot, int64_t row, int64_t rows, F f) {
  const size_t bytes = kernels::packed_bytes(slot.dtype, slot.n, slot.k);
  for (int64_t done = 0; done < rows;) {
    const int64_t first = (row + done) % slot.n;
    const int64_t count = std::min(rows - done, slot.n - first);
    f(size_t((row + done) / slot.n) * bytes, first, count, done);
    done += count;
  }
}

// Rows of one matrix, from and to another type.
void pack_as(const WeightSlot& slot, DType dtype, int64_t first, int64_t rows,
             const std::byte* source, std::byte* packed) {
  if (dtype == slot.dtype) {
    return kernels::pack_rows(packed, slot.dtype, slot.n, slot.k, first, rows, source);
  }
  std::vector<std::byte> converted(size_t(slot.k) * size_t(size_of(slot.dtype)));
  for (int64_t r = 0; r < rows; ++r) {
    convert(source + r * slot.k * size_of(dtype), dtype, slot.k, slot.dtype, converted.data());
    kernels::pack_rows(packed, slot.dtype, slot.n, slot.k, first + r, 1, converted.data());
  }
}

void unpack_as(const WeightSlot& slot, DType dtype, int64_t first, int64_t rows,
               const std::byte* packed, std::byte* destination) {
  const kernels::PackedMatrix matrix{packed, slot.dtype, slot.n, slot.k};
  if (dtype == slot.dtype) return kernels::unpack_rows(matrix, first, rows, destination);
  std::vector<std::byte> stored(size_t(slot.k) * size_t(size_of(slot.dtype)));
  for (int64_t r = 0; r < rows; ++r) {
    kernels::unpack_rows(matrix, first + r, 1, stored.data());
    convert(stored.data(), slot.dtype, slot.k, dtype, destination + r * slot.k * size_of(dtype));
  }
}

}  // namespace

bool is_ignorable_tensor(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

const WeightEntry* NameTable::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(
      entries, name, {}, [](const WeightEntry& entry) { return std::string_view(entry.name); });
  return at == entries.end() || at->name != name ? nullptr : &*at;
}

int32_t NameTable::slot_index(std::string_view slot) const {
  const auto at = std::ranges::find(slots, slot, &WeightSlot::name);
  return at == slots.end() ? -1 : int32_t(at - slots.begin());
}

void write_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
                int64_t rows, const std::byte* source, std::byte* region) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  std::byte* base = region + slot.offset;
  const int64_t first = entry.row + row;
  if (slot.kind == SlotKind::kVector) {
    std::byte* const out = base + first * size_of(slot.dtype);
    const DType rounded = table.dtype.value_or(dtype);
    if (rounded == dtype) return convert(source, dtype, rows, slot.dtype, out);
    std::vector<std::byte> held(size_t(rows) * size_t(size_of(rounded)));
    convert(source, dtype, rows, rounded, held.data());
    return convert(held.data(), rounded, rows, slot.dtype, out);
  }
  for_each_matrix(slot, first, rows, [&](size_t at, int64_t begin, int64_t count, int64_t done) {
    pack_as(slot, dtype, begin, count, source + done * slot.k * size_of(dtype), base + at);
  });
}

void read_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
               int64_t rows, const std::byte* region, std::byte* destination) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  const std::byte* base = region + slot.offset;
  const int64_t first = entry.row + row;
  if (slot.kind == SlotKind::kVector) {
    convert(base + first * size_of(slot.dtype), slot.dtype, rows, dtype, destination);
    return;
  }
  for_each_matrix(slot, first, rows, [&](size_t at, int64_t begin, int64_t count, int64_t done) {
    unpack_as(slot, dtype, begin, count, base + at, destination + done * slot.k * size_of(dtype));
  });
}

bool rows_differ(const NameTable& table, const WeightEntry& entry, int64_t row, int64_t rows,
                 const std::byte* region, const std::byte* other) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  const int64_t first = entry.row + row;
  if (slot.kind == SlotKind::kVector) {
    const size_t at = slot.offset + size_t(first * size_of(slot.dtype));
    return std::memcmp(region + at, other + at, size_t(rows * size_of(slot.dtype))) != 0;
  }
  bool differ = false;
  for_each_matrix(slot, first, rows, [&](size_t at, int64_t begin, int64_t count, int64_t) {
    differ =
        differ || kernels::packed_rows_differ(region + slot.offset + at, other + slot.offset + at,
                                              slot.dtype, slot.k, begin, count);
  });
  return differ;
}

WeightSet::WeightSet(std::shared_ptr<const NameTable> table, std::shared_ptr<Region> region,
                     WeightVersion version, WeightSerial serial)
    : table_(std::move(table)), region_(std::move(region)), version_(version), serial_(serial) {}

kernels::PackedMatrix WeightSet::matrix(int32_t slot) const {
  const WeightSlot& s = table_->slots[size_t(slot)];
  return {region_->data() + s.offset, s.dtype, s.n, s.k};
}

kernels::PackedStack WeightSet::stack(int32_t slot) const {
  return {matrix(slot), table_->slots[size_t(slot)].count};
}

std::span<const float> WeightSet::vector(int32_t slot) const {
  const WeightSlot& s = table_->slots[size_t(slot)];
  return {reinterpret_cast<const float*>(region_->data() + s.offset), size_t(s.k)};
}

}  // namespace rlgen::models
