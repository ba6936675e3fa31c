#include "kernels/packing.h"

#include <thread>

#include "kernels/kernel_test.h"
#include "kernels/shared.h"
#include "tensor/bfloat16.h"

namespace rlgen::kernels {
namespace {

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  TestNumbers numbers(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(numbers.bits());
  return bytes;
}

size_t source_bytes(DType dtype, int64_t n, int64_t k) {
  return static_cast<size_t>(n * k * size_of(dtype));
}

// Offset of element (row, column) in the packed form, as packing.h says it.
size_t packed_offset(DType dtype, int64_t k, int64_t row, int64_t column) {
  const int64_t tile = row / 16;
  const int64_t lane = row % 16;
  if (size_of(dtype) == 4) return size_t(((tile * k + column) * 16 + lane) * 4);
  const int64_t pairs = (k + 1) / 2;
  return size_t((((tile * pairs + column / 2) * 16 + lane) * 2 + column % 2) * 2);
}

TEST(Packing, BytesAreRoundedUp) {
  EXPECT_EQ(packed_bytes(DType::kBFloat16, 16, 2), 64u);
  EXPECT_EQ(packed_bytes(DType::kBFloat16, 17, 3), 2u * 2 * 64);
  EXPECT_EQ(packed_bytes(DType::kFloat16, 1, 1), 64u);
  EXPECT_EQ(packed_bytes(DType::kFloat32, 16, 3), 3u * 64);
  EXPECT_EQ(packed_bytes(DType::kFloat32, 33, 1), 3u * 64);
}

TEST(Packing, EveryElementStandsWhereTheHeaderSays) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t n : {1, 15, 16, 17, 33}) {
      for (const int64_t k : {1, 2, 3, 16, 17, 37, 66}) {
        const auto source = random_bytes(source_bytes(dtype, n, k), uint64_t(n * 100 + k));
        std::vector<std::byte> packed(packed_bytes(dtype, n, k));
        pack_rows(packed.data(), dtype, n, k, 0, n, source.data());
        std::vector<std::byte> want(packed.size());
        const int size = size_of(dtype);
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t c = 0; c < k; ++c) {
            std::memcpy(&want[packed_offset(dtype, k, r, c)], &source[size_t((r * k + c) * size)],
                        size_t(size));
          }
        }
        EXPECT_EQ(packed, want) << n << "x" << k;
      }
    }
  }
}

TEST(Packing, RowsInPartsAndBack) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t k : {1, 7, 32}) {
      const int64_t n = 41;
      const auto source = random_bytes(source_bytes(dtype, n, k), 3);
      std::vector<std::byte> whole(packed_bytes(dtype, n, k));
      pack_rows(whole.data(), dtype, n, k, 0, n, source.data());
      std::vector<std::byte> parts(whole.size());
      for (const int64_t row : {20, 0, 13, 40}) {
        const int64_t end = row == 0 ? 13 : row == 13 ? 20 : row == 20 ? 40 : 41;
        pack_rows(parts.data(), dtype, n, k, row, end - row,
                  source.data() + row * k * size_of(dtype));
      }
      EXPECT_EQ(parts, whole);
      const PackedMatrix matrix{whole.data(), dtype, n, k};
      std::vector<std::byte> back(source.size());
      unpack_rows(matrix, 0, n, back.data());
      EXPECT_EQ(back, source);
      std::vector<std::byte> one(source_bytes(dtype, 1, k));
      unpack_rows(matrix, 17, 1, one.data());
      EXPECT_TRUE(std::equal(one.begin(), one.end(), source.begin() + 17 * k * size_of(dtype)));
    }
  }
}

// Another writer may be at work on the same tile.
TEST(Packing, OtherRowsKeepTheirBytes) {
  const int64_t n = 32;
  const int64_t k = 5;
  std::vector<std::byte> packed(packed_bytes(DType::kBFloat16, n, k), std::byte{0xab});
  const auto source = random_bytes(source_bytes(DType::kBFloat16, 1, k), 5);
  pack_rows(packed.data(), DType::kBFloat16, n, k, 18, 1, source.data());
  size_t changed = 0;
  for (const std::byte b : packed) changed += b != std::byte{0xab} ? 1 : 0;
  EXPECT_GT(changed, 0u);
  EXPECT_LE(changed, size_t(k) * 2);
  for (int64_t c = 0; c < k; ++c) {
    EXPECT_EQ(packed[packed_offset(DType::kBFloat16, k, 18, c)], source[size_t(c) * 2]);
  }
}

TEST(Packing, RowsDifferWhereOneOfTheirBytesDoes) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t k : {1, 7, 32}) {
      const int64_t n = 41;
      const auto source = random_bytes(source_bytes(dtype, n, k), 3);
      std::vector<std::byte> packed(packed_bytes(dtype, n, k));
      pack_rows(packed.data(), dtype, n, k, 0, n, source.data());
      EXPECT_FALSE(packed_rows_differ(packed.data(), packed.data(), dtype, k, 0, n));
      for (const int64_t changed : {0, 13, 16, 31, 40}) {
        std::vector<std::byte> other = packed;
        other[packed_offset(dtype, k, changed, k - 1)] ^= std::byte{1};
        for (const int64_t begin : {0, 13, 14, 16, 17, 32, 40}) {
          for (const int64_t end : {1, 14, 16, 31, 32, 41}) {
            if (end <= begin) continue;
            EXPECT_EQ(packed_rows_differ(packed.data(), other.data(), dtype, k, begin, end - begin),
                      begin <= changed && changed < end)
                << changed << " in [" << begin << ", " << end << ")";
          }
        }
      }
    }
  }
}

// A matrix, and the same one column after the other.
struct Both {
  std::vector<std::byte> rows;
  std::vector<std::byte> columns;
};

Both transposed(DType dtype, int64_t n, int64_t k) {
  const auto size = size_t(size_of(dtype));
  Both both{random_bytes(source_bytes(dtype, n, k), uint64_t(n * 1000 + k)), {}};
  both.columns.resize(both.rows.size());
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < k; ++c) {
      std::memcpy(&both.columns[size_t(c * n + r) * size], &both.rows[size_t(r * k + c) * size],
                  size);
    }
  }
  return both;
}

TEST(Packing, ColumnsInPartsAreTheMatrixAndBack) {
  for (const DType dtype : kWeightTypes) {
    for (const int64_t n : {1, 15, 16, 17, 48, 53}) {
      for (const int64_t k : {1, 2, 7, 32, 35}) {
        const Both matrix = transposed(dtype, n, k);
        std::vector<std::byte> want(packed_bytes(dtype, n, k));
        pack_rows(want.data(), dtype, n, k, 0, n, matrix.rows.data());
        for (const int64_t cut : {0, 1, 2, 5, 33}) {
          if (cut > k) continue;
          const int64_t column = n * size_of(dtype);
          std::vector<std::byte> packed(want.size());
          pack_columns(packed.data(), dtype, n, k, cut, k - cut,
                       matrix.columns.data() + cut * column);
          pack_columns(packed.data(), dtype, n, k, 0, cut, matrix.columns.data());
          EXPECT_EQ(packed, want) << n << "x" << k << " cut at " << cut;
          std::vector<std::byte> back(matrix.columns.size());
          const PackedMatrix stored{packed.data(), dtype, n, k};
          unpack_columns(stored, cut, k - cut, back.data() + cut * column);
          unpack_columns(stored, 0, cut, back.data());
          EXPECT_EQ(back, matrix.columns) << n << "x" << k << " cut at " << cut;
        }
      }
    }
  }
}

// Two columns of 2-byte elements share a word, whoever writes them, and stay apart.
TEST(Packing, ThreadsMayPackColumnsOfOnePair) {
  for (const DType dtype : kWeightTypes) {
    const int64_t n = 130;
    const int64_t k = 200;
    const Both matrix = transposed(dtype, n, k);
    std::vector<std::byte> want(packed_bytes(dtype, n, k));
    pack_rows(want.data(), dtype, n, k, 0, n, matrix.rows.data());
    std::vector<std::byte> packed(want.size());
    const auto pack_every_other = [&](int64_t first) {
      for (int64_t c = first; c < k; c += 2) {
        pack_columns(packed.data(), dtype, n, k, c, 1,
                     matrix.columns.data() + c * n * size_of(dtype));
      }
    };
    {
      const std::jthread even(pack_every_other, 0);
      pack_every_other(1);
    }
    EXPECT_EQ(packed, want);
  }
}

TEST(Packing, ColumnsDifferWhereOneOfTheirBytesDoes) {
  for (const DType dtype : kWeightTypes) {
    const int64_t n = 41;
    const int64_t k = 9;
    const Both matrix = transposed(dtype, n, k);
    std::vector<std::byte> packed(packed_bytes(dtype, n, k));
    pack_columns(packed.data(), dtype, n, k, 0, k, matrix.columns.data());
    const PackedMatrix stored{packed.data(), dtype, n, k};
    EXPECT_FALSE(packed_columns_differ(stored, packed.data(), 0, k));
    for (const int64_t row : {0, 17, 40}) {
      for (int64_t changed = 0; changed < k; ++changed) {
        std::vector<std::byte> other = packed;
        other[packed_offset(dtype, k, row, changed)] ^= std::byte{1};
        for (int64_t begin = 0; begin < k; ++begin) {
          for (int64_t end = begin + 1; end <= k; ++end) {
            EXPECT_EQ(packed_columns_differ(stored, other.data(), begin, end - begin),
                      begin <= changed && changed < end)
                << changed << " in [" << begin << ", " << end << ")";
          }
        }
      }
    }
  }
}

TEST(Packing, GatherRowWidensExactly) {
  for (const DType dtype : kWeightTypes) {
    const int64_t n = 19;
    const int64_t k = 9;
    const auto source = random_bytes(source_bytes(dtype, n, k), 8);
    std::vector<std::byte> packed(packed_bytes(dtype, n, k));
    pack_rows(packed.data(), dtype, n, k, 0, n, source.data());
    for (const int64_t row : {0, 7, 16, 18}) {
      std::vector<float> got(size_t(k) + 1, 7.0f);
      shared::gather_row({packed.data(), dtype, n, k}, row, got.data());
      std::vector<float> want(size_t(k) + 1, 7.0f);
      for (int64_t c = 0; c < k; ++c) {
        const std::byte* at = &source[size_t((row * k + c) * size_of(dtype))];
        uint16_t half = 0;
        std::memcpy(&half, at, sizeof half);
        if (dtype == DType::kFloat32) std::memcpy(&want[size_t(c)], at, sizeof(float));
        if (dtype == DType::kBFloat16) want[size_t(c)] = float_from_bf16(half);
        if (dtype == DType::kFloat16) want[size_t(c)] = float_from_f16(half);
      }
      EXPECT_TRUE(all_same_bits(got, want));
    }
  }
}

}  // namespace
}  // namespace rlgen::kernels
