#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "contract/weight_sink.h"
#include "tensor/tensor_view.h"

// How an update and its tensors read in Python. What cannot be is a StatusError that names it.
namespace rlgen::python {

// Name, type, shape, digest.
using Entry = std::tuple<std::string, std::string, std::vector<int64_t>, std::string>;
using AnyTensor = nanobind::ndarray<nanobind::ro>;

// A number that stands for a time. Python counts True as 1 wherever a number is asked for.
struct Seconds {
  double value = 0.0;
  bool truth = false;  // it was True or False
};

// What may be said of an update beside its tensors.
struct UpdateWords {
  std::string update_id;  // empty only where the update is opened without one
  std::optional<int64_t> version;
  std::string kv_policy;
  std::optional<int64_t> base;
  bool allow_rollback = false;
  bool cast = false;
  bool check_finite = false;
  std::optional<Seconds> timeout_s;
};

UpdateSpec to_spec(const UpdateWords& words, const std::vector<Entry>& manifest);
ManifestEntry to_entry(const Entry& words);

// A positive finite number of seconds, rounded up; True and False are none.
std::chrono::milliseconds to_milliseconds(Seconds seconds);

// The memory of a tensor, which must be one dense block of this machine's.
std::span<const std::byte> bytes_of(const std::string& name, const AnyTensor& tensor);

// The same with its shape, as of type `dtype`: the memory of a bfloat16 of numpy does not say it.
TensorView view_of(const std::string& name, const std::string& dtype, const AnyTensor& tensor);

}  // namespace rlgen::python

namespace nanobind::detail {

template <>
struct type_caster<rlgen::python::Seconds> {
  NB_TYPE_CASTER(rlgen::python::Seconds, const_name("float"))

  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    type_caster<double> number;
    if (!number.from_python(source, flags, cleanup)) return false;
    value = {.value = number.value, .truth = PyBool_Check(source.ptr()) != 0};
    return true;
  }
};

}  // namespace nanobind::detail
