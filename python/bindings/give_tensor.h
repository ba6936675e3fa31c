#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rlgen::python {

// The element types that are handed to Python: integers, float16, bfloat16, float32, bool.
inline nanobind::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nanobind::dlpack::dtype_code;
  Code code = Code::Int;
  if (dtype == DType::kBool) code = Code::Bool;
  if (dtype == DType::kBFloat16) code = Code::Bfloat;
  if (dtype == DType::kFloat16 || dtype == DType::kFloat32) code = Code::Float;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(dtype)), 1};
}

// Hands a dense tensor to whoever takes it through DLPack, without a copy; `owner` holds its memory
// and dies with the last user. With the interpreter's lock.
template <typename Owner>
nanobind::ndarray<nanobind::array_api> give_tensor(std::unique_ptr<Owner> owner, void* data,
                                                   const Shape& shape, DType dtype) {
  std::vector<size_t> sizes;
  for (const int64_t size : shape.dims()) sizes.push_back(static_cast<size_t>(size));
  const nanobind::capsule holder(owner.release(),
                                 [](void* memory) noexcept { delete static_cast<Owner*>(memory); });
  return nanobind::ndarray<nanobind::array_api>(data, sizes.size(), sizes.data(), holder, nullptr,
                                                dlpack_type(dtype));
}

}  // namespace rlgen::python
