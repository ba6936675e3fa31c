#include "tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>

namespace rlgen {
namespace {

// Product of the dimensions; nothing when it does not fit. A zero anywhere makes it 0.
std::optional<std::int64_t> product(std::span<const std::int64_t> dims) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::int64_t result = 1;
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(result, dim, &result)) return std::nullopt;
  }
  return result;
}

}  // namespace

std::string dims_to_string(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

StatusOr<Shape> Shape::make(std::span<const std::int64_t> dims) {
  const auto fail = [&](std::string_view problem) {
    return absl::InvalidArgumentError(fmt::format("shape {} {}", dims_to_string(dims), problem));
  };
  if (dims.size() > kMaxRank) return fail(fmt::format("has more than {} dimensions", kMaxRank));
  for (const std::int64_t dim : dims) {
    if (dim < 0) return fail("has a negative dimension");
  }
  const auto elements = product(dims);
  if (!elements) return fail("has more elements than a 64-bit count can hold");
  Shape shape;
  std::copy(dims.begin(), dims.end(), shape.dims_.begin());
  shape.rank_ = static_cast<int>(dims.size());
  shape.num_elements_ = *elements;
  return shape;
}

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  const auto shape = make({dims.begin(), dims.size()});
  assert(shape.ok());
  if (shape.ok()) *this = *shape;
}

std::string Shape::to_string() const { return dims_to_string(dims()); }

StatusOr<std::int64_t> num_bytes(const Shape& shape, DType dtype) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(), std::int64_t{size_of(dtype)}, &bytes)) {
    return absl::InvalidArgumentError(fmt::format("a tensor of shape {} and type {} is too large",
                                                  shape.to_string(), torch_name(dtype)));
  }
  return bytes;
}

}  // namespace rlgen
