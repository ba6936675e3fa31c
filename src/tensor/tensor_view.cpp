#include "tensor/tensor_view.h"

namespace rlgen {

Strides dense_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    if (shape.num_elements() != 0) stride *= shape[axis];
  }
  return strides;
}

TensorView dense_view(const std::byte* data, DType dtype, const Shape& shape) {
  return {data, dtype, shape, dense_strides(shape)};
}

MutableTensorView dense_view(std::byte* data, DType dtype, const Shape& shape) {
  return {data, dtype, shape, dense_strides(shape)};
}

}  // namespace rlgen
