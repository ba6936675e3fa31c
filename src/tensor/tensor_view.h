#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rlgen {

// Distance of neighbours along each axis, in elements; entries beyond the rank are 0.
using Strides = std::array<std::int64_t, Shape::kMaxRank>;

// Row-major strides without gaps.
Strides dense_strides(const Shape& shape);

// A tensor in memory that somebody else owns and keeps alive. `Byte` is std::byte or const
// std::byte. Cheap to copy.
template <typename Byte>
struct BasicTensorView {
  Byte* data = nullptr;  // of element [0, 0, ...]
  DType dtype = DType::kFloat32;
  Shape shape;
  Strides strides{};

  // Axes of length 1, and every axis of an empty tensor, may have any stride.
  bool is_dense() const {
    if (shape.num_elements() == 0) return true;
    const Strides dense = dense_strides(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (shape[axis] != 1 && strides[i] != dense[i]) return false;
    }
    return true;
  }

  // The data as T; sizeof(T) is size_of(dtype) (asserted).
  template <typename T>
  T* as() const {
    assert(static_cast<int>(sizeof(T)) == size_of(dtype));
    return reinterpret_cast<T*>(data);
  }

  // The part at `index` of the outermost axis, without that axis. Rank at least 1 and
  // 0 <= index < shape[0] (asserted).
  BasicTensorView at(std::int64_t index) const {
    assert(shape.rank() > 0 && index >= 0 && index < shape[0]);
    BasicTensorView part{data + index * strides[0] * size_of(dtype), dtype, {}, {}};
    part.shape = *Shape::make(shape.dims().subspan(1));
    for (std::size_t i = 0; i + 1 < strides.size(); ++i) part.strides[i] = strides[i + 1];
    return part;
  }

  operator BasicTensorView<const std::byte>() const { return {data, dtype, shape, strides}; }
};

using TensorView = BasicTensorView<const std::byte>;
using MutableTensorView = BasicTensorView<std::byte>;

// Dense views over memory that holds num_bytes(shape, dtype) bytes.
TensorView dense_view(const std::byte* data, DType dtype, const Shape& shape);
MutableTensorView dense_view(std::byte* data, DType dtype, const Shape& shape);

}  // namespace rlgen
