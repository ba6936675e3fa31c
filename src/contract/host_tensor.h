#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/tensor_view.h"

namespace rlgen {

// A small dense tensor in C order that owns its memory. Plain data, copied as a value; a tensor
// without elements may stand for "not there" where a struct says so.
class HostTensor {
 public:
  HostTensor() = default;  // nothing: not present()
  // Zeros. The bytes fit into memory (they come from a batch that does).
  HostTensor(DType dtype, const Shape& shape);

  // A dense copy of `view`.
  static HostTensor copy_of(const TensorView& view);
  // One dimension, of int64, float32 or bool values.
  static HostTensor of(std::span<const int64_t> values);
  static HostTensor of(std::span<const float> values);
  static HostTensor of(const std::vector<bool>& values);

  bool present() const { return present_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  TensorView view() const { return dense_view(bytes_.data(), dtype_, shape_); }
  MutableTensorView view() { return dense_view(bytes_.data(), dtype_, shape_); }

  // The data as T; sizeof(T) is size_of(dtype()) (asserted by the view).
  template <typename T>
  const T* as() const {
    return view().as<const T>();
  }
  template <typename T>
  T* as() {
    return view().as<T>();
  }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::vector<std::byte> bytes_;
  bool present_ = false;
};

// True for the eight integer types.
bool is_integer(DType dtype);

// All elements of `view` in C order, as 64-bit integers. kInvalidArgument for a type that is no
// integer and for an unsigned value that does not fit.
StatusOr<std::vector<int64_t>> read_integers(const TensorView& view);

// Writes `values`, as many as `tensor` has elements (asserted), in its own type.
// kInvalidArgument for a type that is no integer and names a value that does not fit.
Status write_integers(std::span<const int64_t> values, HostTensor* tensor);

}  // namespace rlgen
