#include <algorithm>
#include <cstring>

#include "models/weights.h"
#include "tensor/bfloat16.h"

// Rows of tensors, as they are sent, into a region and back.
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

// Calls move(place in turns, place in halves) for each of the n elements of an interleaved row.
template <typename Move>
void for_turns(int64_t n, Move move) {
  for (int64_t i = 0; i < n / 2; ++i) {
    move(2 * i, i);
    move(2 * i + 1, n / 2 + i);
  }
}

// Rows of n elements of T, from turns to halves and back.
template <typename T>
void part_turns(const std::byte* from, int64_t rows, int64_t n, std::byte* to) {
  constexpr auto kSize = int64_t(sizeof(T));
  for (int64_t at = 0; at < rows * n; at += n) {
    for_turns(n, [&](int64_t turn, int64_t half) {
      std::memcpy(to + (at + half) * kSize, from + (at + turn) * kSize, sizeof(T));
    });
  }
}

template <typename T>
void take_turns(const std::byte* from, int64_t rows, int64_t n, std::byte* to) {
  constexpr auto kSize = int64_t(sizeof(T));
  for (int64_t at = 0; at < rows * n; at += n) {
    for_turns(n, [&](int64_t turn, int64_t half) {
      std::memcpy(to + (at + turn) * kSize, from + (at + half) * kSize, sizeof(T));
    });
  }
}

// Rows that are converted or reordered at a time.
constexpr int64_t kRowsAtOnce = 16;

// Calls f(first row, rows) for `rows` rows, a few at a time.
template <typename F>
void for_some_rows(int64_t rows, F f) {
  for (int64_t row = 0; row < rows; row += kRowsAtOnce) f(row, std::min(kRowsAtOnce, rows - row));
}

// Rows of the tensor `entry` as they are sent, and as its slot has them.
struct RowForms {
  const WeightEntry& entry;
  DType sent;
  DType held;

  bool same() const { return sent == held && !entry.interleaved; }
  int64_t size() const { return entry.row_size(); }
  size_t held_bytes() const { return size_t(kRowsAtOnce * size() * size_of(held)); }

  // At most kRowsAtOnce rows. `scratch` has held_bytes().
  void to_held(const std::byte* source, int64_t rows, std::byte* scratch, std::byte* to) const {
    if (!entry.interleaved) return convert(source, sent, rows * size(), held, to);
    convert(source, sent, rows * size(), held, scratch);
    (size_of(held) == 2 ? part_turns<uint16_t> : part_turns<uint32_t>)(scratch, rows, size(), to);
  }
  void to_sent(const std::byte* stored, int64_t rows, std::byte* scratch, std::byte* to) const {
    if (!entry.interleaved) return convert(stored, held, rows * size(), sent, to);
    (size_of(held) == 2 ? take_turns<uint16_t> : take_turns<uint32_t>)(stored, rows, size(),
                                                                       scratch);
    convert(scratch, held, rows * size(), sent, to);
  }
};

// Calls f(bytes before the matrix, its row, rows, rows before) for each matrix of a slot that rows
// [row, row + rows) of the tensor touch; of a transposed one columns take the place of rows.
template <typename F>
void for_each_matrix(const WeightSlot& slot, const WeightEntry& entry, int64_t row, int64_t rows,
                     F f) {
  const size_t bytes = kernels::packed_bytes(slot.dtype, slot.n, slot.k);
  const int64_t in_each = entry.transposed ? slot.k : slot.n;
  for (int64_t done = 0; done < rows;) {
    const int64_t at = entry.row + row + done;
    const int64_t count = std::min(rows - done, in_each - at % in_each);
    f(size_t(at / in_each) * bytes, at % in_each, count, done);
    done += count;
  }
}

// Rows of the tensor, as the slot has them, from and to its matrices at `base`.
void pack(const WeightSlot& slot, const WeightEntry& entry, int64_t row, int64_t rows,
          const std::byte* source, std::byte* base) {
  const int64_t row_bytes = entry.row_size() * size_of(slot.dtype);
  for_each_matrix(
      slot, entry, row, rows, [&](size_t at, int64_t begin, int64_t count, int64_t done) {
        const auto pack_into = entry.transposed ? kernels::pack_columns : kernels::pack_rows;
        pack_into(base + at, slot.dtype, slot.n, slot.k, begin, count, source + done * row_bytes);
      });
}

void unpack(const WeightSlot& slot, const WeightEntry& entry, int64_t row, int64_t rows,
            const std::byte* base, std::byte* destination) {
  const int64_t row_bytes = entry.row_size() * size_of(slot.dtype);
  for_each_matrix(
      slot, entry, row, rows, [&](size_t at, int64_t begin, int64_t count, int64_t done) {
        const kernels::PackedMatrix matrix{base + at, slot.dtype, slot.n, slot.k};
        const auto unpack_from = entry.transposed ? kernels::unpack_columns : kernels::unpack_rows;
        unpack_from(matrix, begin, count, destination + done * row_bytes);
      });
}

void write_vector(const NameTable& table, const RowForms& forms, int64_t rows,
                  const std::byte* source, std::byte* out) {
  const DType rounded = table.dtype.value_or(forms.sent);
  const RowForms second{forms.entry, rounded, forms.held};
  std::vector<std::byte> scratch(forms.held_bytes());
  std::vector<std::byte> once(forms.held_bytes());
  for_some_rows(rows, [&](int64_t row, int64_t count) {
    const int64_t elements = count * forms.size();
    convert(source + row * forms.size() * size_of(forms.sent), forms.sent, elements, rounded,
            once.data());
    second.to_held(once.data(), count, scratch.data(),
                   out + row * forms.size() * size_of(forms.held));
  });
}

void read_vector(const RowForms& forms, int64_t rows, const std::byte* stored,
                 std::byte* destination) {
  std::vector<std::byte> scratch(forms.held_bytes());
  for_some_rows(rows, [&](int64_t row, int64_t count) {
    forms.to_sent(stored + row * forms.size() * size_of(forms.held), count, scratch.data(),
                  destination + row * forms.size() * size_of(forms.sent));
  });
}

// Where row `row` of the tensor begins in a vector slot.
size_t vector_offset(const WeightSlot& slot, const WeightEntry& entry, int64_t row) {
  return slot.offset + size_t((entry.row + row * entry.row_size()) * size_of(slot.dtype));
}

// Calls f(a tensor of the rows of one part alone, its row, rows, rows before) for each run of rows
// [row, row + rows) of the tensor that goes to one slot.
template <typename F>
void for_each_part(const WeightEntry& entry, int64_t row, int64_t rows, F f) {
  if (entry.parts.empty()) return f(entry, row, rows, int64_t{0});
  std::vector<WeightEntry> alone;
  int64_t in_turn = 0;
  for (const RowPart& part : entry.parts) {
    WeightEntry& one = alone.emplace_back();
    one.shape = Shape{part.rows, entry.row_size()};
    one.slot = part.slot;
    one.transposed = part.transposed;
    in_turn += part.rows;
  }
  for (int64_t done = 0; done < rows;) {
    const int64_t turn = (row + done) / in_turn;
    int64_t at = (row + done) % in_turn;
    size_t part = 0;
    for (; at >= entry.parts[part].rows; ++part) at -= entry.parts[part].rows;
    const int64_t of_turn = entry.parts[part].rows;
    const int64_t count = std::min(of_turn - at, rows - done);
    f(alone[part], turn * of_turn + at, count, done);
    done += count;
  }
}

void write_part(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
                int64_t rows, const std::byte* source, std::byte* region) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  const RowForms forms{entry, dtype, slot.dtype};
  if (slot.kind == SlotKind::kVector) {
    return write_vector(table, forms, rows, source, region + vector_offset(slot, entry, row));
  }
  std::byte* const base = region + slot.offset;
  if (forms.same()) return pack(slot, entry, row, rows, source, base);
  std::vector<std::byte> scratch(forms.held_bytes());
  std::vector<std::byte> held(forms.held_bytes());
  for_some_rows(rows, [&](int64_t first, int64_t count) {
    forms.to_held(source + first * forms.size() * size_of(dtype), count, scratch.data(),
                  held.data());
    pack(slot, entry, row + first, count, held.data(), base);
  });
}

void read_part(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
               int64_t rows, const std::byte* region, std::byte* destination) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  const RowForms forms{entry, dtype, slot.dtype};
  if (slot.kind == SlotKind::kVector) {
    return read_vector(forms, rows, region + vector_offset(slot, entry, row), destination);
  }
  const std::byte* const base = region + slot.offset;
  if (forms.same()) return unpack(slot, entry, row, rows, base, destination);
  std::vector<std::byte> scratch(forms.held_bytes());
  std::vector<std::byte> stored(forms.held_bytes());
  for_some_rows(rows, [&](int64_t first, int64_t count) {
    unpack(slot, entry, row + first, count, base, stored.data());
    forms.to_sent(stored.data(), count, scratch.data(),
                  destination + first * forms.size() * size_of(dtype));
  });
}

bool part_differs(const NameTable& table, const WeightEntry& entry, int64_t row, int64_t rows,
                  const std::byte* region, const std::byte* other) {
  const WeightSlot& slot = table.slots[size_t(entry.slot)];
  if (slot.kind == SlotKind::kVector) {
    const size_t at = vector_offset(slot, entry, row);
    const size_t bytes = size_t(rows * entry.row_size() * size_of(slot.dtype));
    return std::memcmp(region + at, other + at, bytes) != 0;
  }
  bool differ = false;
  for_each_matrix(slot, entry, row, rows, [&](size_t at, int64_t begin, int64_t count, int64_t) {
    if (differ) return;
    const std::byte* const mine = region + slot.offset + at;
    const std::byte* const theirs = other + slot.offset + at;
    differ = entry.transposed
                 ? kernels::packed_columns_differ({mine, slot.dtype, slot.n, slot.k}, theirs, begin,
                                                  count)
                 : kernels::packed_rows_differ(mine, theirs, slot.dtype, slot.k, begin, count);
  });
  return differ;
}

}  // namespace

void write_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
                int64_t rows, const std::byte* source, std::byte* region) {
  const int64_t row_bytes = entry.row_size() * size_of(dtype);
  for_each_part(entry, row, rows,
                [&](const WeightEntry& part, int64_t first, int64_t count, int64_t done) {
                  write_part(table, part, dtype, first, count, source + done * row_bytes, region);
                });
}

void read_rows(const NameTable& table, const WeightEntry& entry, DType dtype, int64_t row,
               int64_t rows, const std::byte* region, std::byte* destination) {
  const int64_t row_bytes = entry.row_size() * size_of(dtype);
  for_each_part(
      entry, row, rows, [&](const WeightEntry& part, int64_t first, int64_t count, int64_t done) {
        read_part(table, part, dtype, first, count, region, destination + done * row_bytes);
      });
}

bool rows_differ(const NameTable& table, const WeightEntry& entry, int64_t row, int64_t rows,
                 const std::byte* region, const std::byte* other) {
  bool differ = false;
  for_each_part(entry, row, rows,
                [&](const WeightEntry& part, int64_t first, int64_t count, int64_t) {
                  differ = differ || part_differs(table, part, first, count, region, other);
                });
  return differ;
}

bool begins_group(const NameTable& table, const WeightEntry& entry, int64_t row) {
  bool begins = true;  // behind the last row
  if (row == entry.rows()) return begins;
  for_each_part(entry, row, 1, [&](const WeightEntry& part, int64_t first, int64_t, int64_t) {
    const int64_t in_matrix = (part.row + first) % table.slots[size_t(part.slot)].n;
    begins = part.transposed || in_matrix % 16 == 0;
  });
  return begins;
}

}  // namespace rlgen::models
