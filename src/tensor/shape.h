#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/status.h"
#include "tensor/dtype.h"

namespace rlgen {

// The dimensions of a tensor, outermost first, kept in place: at most kMaxRank of them, none
// negative, and their product fits std::int64_t. Rank 0 is a scalar with one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  // Errors: kInvalidArgument for too many dimensions, a negative one, or too many elements.
  static StatusOr<Shape> make(std::span<const std::int64_t> dims);

  Shape() = default;
  // For dimensions that are known to be good (asserted).
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  std::int64_t num_elements() const { return num_elements_; }

  // "[2, 3]"; "[]" for a scalar.
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
  std::int64_t num_elements_ = 1;
};

// "[2, 3]" of any dimensions, good or not; for messages.
std::string dims_to_string(std::span<const std::int64_t> dims);

// Bytes of a dense tensor. Errors: kInvalidArgument when they do not fit std::int64_t.
StatusOr<std::int64_t> num_bytes(const Shape& shape, DType dtype);

}  // namespace rlgen
