#include "tensor/dlpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace rlgen {
namespace {

struct DlpackRow {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};

constexpr std::array<DlpackRow, 12> kDlpackRows = {{
    {DType::kUInt8, kDLUInt, 8},
    {DType::kUInt16, kDLUInt, 16},
    {DType::kUInt32, kDLUInt, 32},
    {DType::kUInt64, kDLUInt, 64},
    {DType::kInt8, kDLInt, 8},
    {DType::kInt16, kDLInt, 16},
    {DType::kInt32, kDLInt, 32},
    {DType::kInt64, kDLInt, 64},
    {DType::kFloat16, kDLFloat, 16},
    {DType::kBFloat16, kDLBfloat, 16},
    {DType::kFloat32, kDLFloat, 32},
    {DType::kFloat64, kDLFloat, 64},
}};

StatusOr<DType> dtype_of(const DLDataType& type) {
  for (const DlpackRow& row : kDlpackRows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return absl::UnimplementedError(
      fmt::format("DLPack type with code {}, {} bits and {} lanes is not supported", type.code,
                  type.bits, type.lanes));
}

// A DLManagedTensor with the arrays that it points to and what keeps the data alive.
struct Export {
  DLManagedTensor managed{};
  std::array<std::int64_t, Shape::kMaxRank> shape{};
  Strides strides{};
  std::shared_ptr<const void> owner;
};

void free_export(DLManagedTensor* managed) { delete static_cast<Export*>(managed->manager_ctx); }

}  // namespace

StatusOr<MutableTensorView> view_of_dlpack(const DLTensor& tensor) {
  if (tensor.device.device_type != kDLCPU) {
    return absl::UnimplementedError(
        fmt::format("a tensor on DLPack device type {} is not supported; move it to the CPU",
                    static_cast<int>(tensor.device.device_type)));
  }
  RLGEN_ASSIGN_OR_RETURN(const DType dtype, dtype_of(tensor.dtype));
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return absl::InvalidArgumentError("a DLPack tensor without a shape");
  }
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, Shape::make({tensor.shape, rank}));
  if (tensor.data == nullptr && shape.num_elements() != 0) {
    return absl::InvalidArgumentError(
        fmt::format("a DLPack tensor of shape {} without data", shape.to_string()));
  }
  auto* data = static_cast<std::byte*>(tensor.data);
  if (data != nullptr) data += tensor.byte_offset;
  MutableTensorView view = dense_view(data, dtype, shape);
  if (tensor.strides != nullptr) std::copy_n(tensor.strides, rank, view.strides.begin());
  return view;
}

StatusOr<DlpackHandle> to_dlpack(const TensorView& view, std::shared_ptr<const void> owner) {
  const auto row = std::find_if(kDlpackRows.begin(), kDlpackRows.end(),
                                [&](const DlpackRow& each) { return each.dtype == view.dtype; });
  if (row == kDlpackRows.end()) {
    return absl::UnimplementedError(
        fmt::format("{} has no DLPack type in this build", torch_name(view.dtype)));
  }
  auto handed_out = std::make_unique<Export>();
  std::copy(view.shape.dims().begin(), view.shape.dims().end(), handed_out->shape.begin());
  handed_out->strides = view.strides;
  handed_out->owner = std::move(owner);
  DLTensor& tensor = handed_out->managed.dl_tensor;
  tensor.data = const_cast<std::byte*>(view.data);
  tensor.device = {kDLCPU, 0};
  tensor.ndim = view.shape.rank();
  tensor.dtype = {row->code, row->bits, 1};
  tensor.shape = handed_out->shape.data();
  tensor.strides = handed_out->strides.data();
  handed_out->managed.manager_ctx = handed_out.get();
  handed_out->managed.deleter = free_export;
  return DlpackHandle(&handed_out.release()->managed);
}

}  // namespace rlgen
