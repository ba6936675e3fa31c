#include "contract/host_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace rlgen {
namespace {

// Calls `use` with the offset, in elements, of each element of `view` in C order.
template <typename Use>
void for_each_offset(const TensorView& view, const Use& use) {
  const int rank = view.shape.rank();
  std::array<int64_t, Shape::kMaxRank> index{};
  for (int64_t n = view.shape.num_elements(); n > 0; --n) {
    int64_t offset = 0;
    for (int axis = 0; axis < rank; ++axis) {
      offset += index[static_cast<size_t>(axis)] * view.strides[static_cast<size_t>(axis)];
    }
    use(offset);
    for (int axis = rank - 1; axis >= 0; --axis) {
      if (++index[static_cast<size_t>(axis)] < view.shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

// Calls `use` with a value of the integer type; false where `dtype` is none.
template <typename Use>
bool with_integer_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kUInt8:
      use(uint8_t{});
      return true;
    case DType::kInt8:
      use(int8_t{});
      return true;
    case DType::kUInt16:
      use(uint16_t{});
      return true;
    case DType::kInt16:
      use(int16_t{});
      return true;
    case DType::kUInt32:
      use(uint32_t{});
      return true;
    case DType::kInt32:
      use(int32_t{});
      return true;
    case DType::kUInt64:
      use(uint64_t{});
      return true;
    case DType::kInt64:
      use(int64_t{});
      return true;
    default:
      return false;
  }
}

template <typename T>
HostTensor one_dimension(DType dtype, std::span<const T> values) {
  HostTensor tensor(dtype, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

Status no_integer(DType dtype) {
  return absl::InvalidArgumentError(
      fmt::format("a tensor of {} is given where integers are needed", torch_name(dtype)));
}

}  // namespace

HostTensor::HostTensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      bytes_(static_cast<size_t>(shape.num_elements() * size_of(dtype))),
      present_(true) {}

HostTensor HostTensor::copy_of(const TensorView& view) {
  HostTensor copy(view.dtype, view.shape);
  const auto size = static_cast<size_t>(size_of(view.dtype));
  std::byte* out = copy.bytes_.data();
  for_each_offset(view, [&](int64_t offset) {
    std::memcpy(out, view.data + offset * static_cast<int64_t>(size), size);
    out += size;
  });
  return copy;
}

HostTensor HostTensor::of(std::span<const int64_t> values) {
  return one_dimension(DType::kInt64, values);
}

HostTensor HostTensor::of(std::span<const float> values) {
  return one_dimension(DType::kFloat32, values);
}

HostTensor HostTensor::of(const std::vector<bool>& values) {
  HostTensor tensor(DType::kBool, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.bytes_[i] = std::byte{values[i]};
  return tensor;
}

bool is_integer(DType dtype) {
  return with_integer_type(dtype, [](auto) {});
}

StatusOr<std::vector<int64_t>> read_integers(const TensorView& view) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(view.shape.num_elements()));
  bool fits = true;
  const bool known = with_integer_type(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = view.as<const T>();
    for_each_offset(view, [&](int64_t offset) {
      T value{};
      std::memcpy(&value, data + offset, sizeof(T));
      fits = fits && std::in_range<int64_t>(value);
      values.push_back(static_cast<int64_t>(value));
    });
  });
  if (!known) return no_integer(view.dtype);
  if (!fits) {
    return absl::InvalidArgumentError("a tensor of uint64 holds a number of 2^63 or more");
  }
  return values;
}

Status write_integers(std::span<const int64_t> values, HostTensor* tensor) {
  assert(static_cast<int64_t>(values.size()) == tensor->shape().num_elements());
  Status status;
  const bool known = with_integer_type(tensor->dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data = tensor->as<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::in_range<T>(values[i]) && status.ok()) {
        status = absl::InvalidArgumentError(
            fmt::format("{} does not fit {}", values[i], torch_name(tensor->dtype())));
      }
      data[i] = static_cast<T>(values[i]);
    }
  });
  return known ? status : no_integer(tensor->dtype());
}

}  // namespace rlgen
