#include "bindings/update_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bindings/errors.h"

namespace rlgen::python {
namespace {

constexpr double kLongestTimeout = 1e9;  // seconds

KvPolicy to_policy(const std::string& name) {
  if (name == "keep") return KvPolicy::kKeep;
  if (name == "recompute") return KvPolicy::kRecompute;
  if (name == "abort") return KvPolicy::kAbort;
  if (name == "wait") return KvPolicy::kWait;
  throw StatusError(absl::InvalidArgumentError(
      fmt::format("kv_policy is \"{}\"; it must be one of recompute, keep, abort, wait", name)));
}

}  // namespace

std::chrono::milliseconds to_milliseconds(Seconds seconds) {
  const double value = seconds.value;
  if (seconds.truth || !(value > 0.0 && std::isfinite(value))) {
    const std::string given =
        seconds.truth ? (value != 0.0 ? "True" : "False") : fmt::to_string(value);
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("timeout_s is {}; it must be None or a positive finite number", given)));
  }
  return std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(std::min(value, kLongestTimeout) * 1000.0)));
}

ManifestEntry to_entry(const Entry& words) {
  const auto& [name, dtype_name, sizes, digest] = words;
  ManifestEntry entry{.name = name};
  const auto dtype = parse_torch_dtype(dtype_name);
  if (!dtype) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("{} has the type {}, which rlgen does not know", name, dtype_name)));
  }
  entry.dtype = *dtype;
  auto shape = Shape::make(sizes);
  if (!shape.ok()) throw StatusError(annotate(shape.status(), name));
  entry.shape = *shape;
  entry.digest = digest;
  return entry;
}

UpdateSpec to_spec(const UpdateWords& words, const std::vector<Entry>& manifest) {
  UpdateSpec spec{.update_id = words.update_id};
  spec.version = words.version;
  spec.base = words.base;
  spec.allow_rollback = words.allow_rollback;
  spec.kv_policy = to_policy(words.kv_policy);
  spec.cast = words.cast;
  spec.check_finite = words.check_finite;
  if (words.timeout_s) spec.deadline = to_milliseconds(*words.timeout_s);
  for (const Entry& entry : manifest) spec.manifest.push_back(to_entry(entry));
  return spec;
}

std::span<const std::byte> bytes_of(const std::string& name, const AnyTensor& tensor) {
  if (tensor.device_type() != nanobind::device::cpu::value) {
    throw StatusError(absl::InvalidArgumentError(
        fmt::format("{} is on another device (DLPack type {}); move it to the CPU", name,
                    tensor.device_type())));
  }
  int64_t dense = 1;
  for (size_t i = tensor.ndim(); i-- > 0;) {
    if (tensor.shape(i) != 1 && tensor.stride(i) != dense && tensor.size() > 0) {
      throw StatusError(absl::InvalidArgumentError(
          fmt::format("{} is not contiguous; write tensor.contiguous()", name)));
    }
    dense *= static_cast<int64_t>(tensor.shape(i));
  }
  return {static_cast<const std::byte*>(tensor.data()), tensor.nbytes()};
}

TensorView view_of(const std::string& name, const std::string& dtype, const AnyTensor& tensor) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < tensor.ndim(); ++i) {
    sizes.push_back(static_cast<int64_t>(tensor.shape(i)));
  }
  const ManifestEntry entry = to_entry({name, dtype, sizes, ""});
  if (size_of(entry.dtype) != static_cast<int>(tensor.itemsize())) {
    throw StatusError(absl::InvalidArgumentError(fmt::format(
        "{} is said to be {} and has elements of {} bytes", name, dtype, tensor.itemsize())));
  }
  return dense_view(bytes_of(name, tensor).data(), entry.dtype, entry.shape);
}

}  // namespace rlgen::python
