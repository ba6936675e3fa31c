#include "models/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "models/json_document.h"

namespace rlgen::models {
namespace {

using nlohmann::json;

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Status corrupt(const std::string& file, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}", file, what));
}

Status corrupt_tensor(const std::string& file, const std::string& tensor, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: tensor \"{}\": {}", file, tensor, what));
}

StatusOr<std::string_view> header_text(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < 8) {
    return corrupt(name, fmt::format("{} bytes long, shorter than the 8 byte header length; "
                                     "download the file again",
                                     file.size()));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | uint64_t(file[size_t(i)]);
  if (length > kMaxSafetensorsHeader) {
    return corrupt(name, fmt::format("header length {} exceeds the limit of {}; not a safetensors "
                                     "file, or damaged",
                                     length, kMaxSafetensorsHeader));
  }
  if (length > file.size() - 8) {
    return corrupt(name, fmt::format("header length {} exceeds the {} bytes that follow it; the "
                                     "file is truncated, download it again",
                                     length, file.size() - 8));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (text.empty() || text[0] != '{') {
    return corrupt(name, text.empty() ? std::string("header is empty, expected a JSON object")
                                      : fmt::format("header begins with byte 0x{:02x}, expected "
                                                    "'{{' (0x7b)",
                                                    uint8_t(text[0])));
  }
  return text;
}

StatusOr<Shape> read_shape(const json& value, const std::string& file, const std::string& tensor) {
  std::vector<int64_t> dims;
  if (!value.is_array()) return corrupt_tensor(file, tensor, "shape is not a list");
  for (const json& dim : value) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > uint64_t(INT64_MAX)) {
      return corrupt_tensor(file, tensor,
                            fmt::format("shape {} has a dimension that is no size: {}",
                                        show_json(value), show_json(dim)));
    }
    dims.push_back(int64_t(dim.get<uint64_t>()));
  }
  StatusOr<Shape> shape = Shape::make(dims);
  if (!shape.ok()) return corrupt_tensor(file, tensor, message_of(shape.status()));
  return shape;
}

StatusOr<Range> read_offsets(const json& value, const std::string& file,
                             const std::string& tensor) {
  const bool pair = value.is_array() && value.size() == 2 && value[0].is_number_unsigned() &&
                    value[1].is_number_unsigned();
  if (!pair) {
    return corrupt_tensor(
        file, tensor, fmt::format("data_offsets is {}, expected two offsets", show_json(value)));
  }
  const Range range{value[0].get<uint64_t>(), value[1].get<uint64_t>()};
  if (range.begin > range.end) {
    return corrupt_tensor(
        file, tensor,
        fmt::format("data_offsets begin at {} and end at {}", range.begin, range.end));
  }
  return range;
}

Status check_fields(const json& entry, const std::string& file, const std::string& tensor) {
  if (!entry.is_object()) {
    return corrupt_tensor(file, tensor,
                          fmt::format("header entry is {}, not an object", show_json(entry)));
  }
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(field)) return corrupt_tensor(file, tensor, fmt::format("no {}", field));
  }
  if (entry.size() == 3) return absl::OkStatus();
  for (const auto& item : entry.items()) {
    if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets") {
      return corrupt_tensor(file, tensor, fmt::format("unknown header field \"{}\"", item.key()));
    }
  }
  return absl::OkStatus();
}

StatusOr<StoredTensor> read_entry(const std::string& name, const json& entry,
                                  std::span<const std::byte> data, const std::string& file) {
  RLGEN_RETURN_IF_ERROR(check_fields(entry, file, name));
  const json& type = entry["dtype"];
  const std::optional<DType> dtype =
      type.is_string() ? parse_safetensors_dtype(type.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype) {
    return corrupt_tensor(file, name,
                          fmt::format("dtype is {}, which is unknown", show_json(type)));
  }
  RLGEN_ASSIGN_OR_RETURN(const Shape shape, read_shape(entry["shape"], file, name));
  RLGEN_ASSIGN_OR_RETURN(const Range range, read_offsets(entry["data_offsets"], file, name));
  if (range.end > data.size()) {
    return corrupt_tensor(
        file, name,
        fmt::format("data ends at byte {} but the file holds {} bytes of data; it "
                    "is truncated, download it again",
                    range.end, data.size()));
  }
  const StatusOr<int64_t> expected = num_bytes(shape, *dtype);
  if (!expected.ok() || uint64_t(*expected) != range.end - range.begin) {
    return corrupt_tensor(
        file, name,
        fmt::format("data_offsets span {} bytes but shape {} of {} needs {}",
                    range.end - range.begin, shape.to_string(), safetensors_name(*dtype),
                    expected.ok() ? fmt::format("{}", *expected) : "more than fit 64 bits"));
  }
  return StoredTensor{name, *dtype, shape, data.subspan(range.begin, range.end - range.begin),
                      file};
}

Status check_metadata(const json& metadata, const std::string& file) {
  if (!metadata.is_object()) return corrupt(file, "__metadata__ is not an object");
  for (const auto& item : metadata.items()) {
    if (item.value().is_string()) continue;
    return corrupt(file, fmt::format("__metadata__.{} is {}, expected a string", item.key(),
                                     show_json(item.value())));
  }
  return absl::OkStatus();
}

// The ranges must tile the data: no overlap, no gap, nothing after the last. `tensors` gets sorted.
Status check_tiling(std::vector<StoredTensor>* tensors, std::span<const std::byte> data,
                    const std::string& file) {
  std::ranges::stable_sort(*tensors, [](const StoredTensor& a, const StoredTensor& b) {
    if (a.bytes.data() != b.bytes.data()) return a.bytes.data() < b.bytes.data();
    return a.bytes.size() < b.bytes.size();
  });
  size_t expected = 0;
  for (const StoredTensor& tensor : *tensors) {
    const size_t begin = size_t(tensor.bytes.data() - data.data());
    if (begin != expected) {
      return corrupt_tensor(
          file, tensor.name,
          fmt::format("data begins at byte {} but the tensor before it ends at byte {}: {}", begin,
                      expected,
                      begin < expected ? "they overlap" : "bytes between belong to none"));
    }
    expected = begin + tensor.bytes.size();
  }
  if (expected == data.size()) return absl::OkStatus();
  return corrupt(file,
                 fmt::format("the last tensor ends at byte {} of the data but {} bytes follow "
                             "the header: trailing bytes",
                             expected, data.size()));
}

}  // namespace

StatusOr<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file,
                                                      const std::string& file_name) {
  RLGEN_ASSIGN_OR_RETURN(const std::string_view text, header_text(file, file_name));
  RLGEN_ASSIGN_OR_RETURN(const json header,
                         parse_json(text, file_name, absl::StatusCode::kDataLoss));
  const std::span<const std::byte> data = file.subspan(8 + text.size());
  std::vector<StoredTensor> tensors;
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__") {
      RLGEN_RETURN_IF_ERROR(check_metadata(item.value(), file_name));
      continue;
    }
    RLGEN_ASSIGN_OR_RETURN(StoredTensor tensor,
                           read_entry(item.key(), item.value(), data, file_name));
    tensors.push_back(std::move(tensor));
  }
  RLGEN_RETURN_IF_ERROR(check_tiling(&tensors, data, file_name));
  return tensors;
}

}  // namespace rlgen::models
