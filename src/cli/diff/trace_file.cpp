#include "cli/diff/trace_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "models/safetensors.h"

namespace rlgen::cli {
namespace {

constexpr std::string_view kTokenIds = "token_ids";
constexpr size_t kAlignment = 8;

// Collects tensors, then writes header and data.
class TensorFile {
 public:
  template <typename T>
  void add(const std::string& name, std::string_view dtype, std::vector<size_t> shape,
           std::span<const T> values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    header_[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {size_, size_ + bytes.size()}}};
    size_ += bytes.size();
    parts_.push_back(bytes);
  }

  Status write(const std::string& path, const std::string& source) {
    header_["__metadata__"] = {{"format", "rlgen.activations/1"}, {"source", source}};
    std::string header = header_.dump();
    header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
    const auto length = static_cast<uint64_t>(header.size());
    std::string text(sizeof(length), '\0');
    std::memcpy(text.data(), &length, sizeof(length));
    text.reserve(text.size() + header.size() + size_);
    text += header;
    for (const auto part : parts_)
      text.append(reinterpret_cast<const char*>(part.data()), part.size());
    return write_file_atomically(path, text);
  }

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::vector<std::span<const std::byte>> parts_;
  size_t size_ = 0;
};

Status no_trace(const std::string& path, const std::string& tensor, std::string_view what) {
  return absl::DataLossError(
      fmt::format("{}: tensor \"{}\" {}; this is no file of activations", path, tensor, what));
}

struct TensorName {
  size_t sequence = 0;
  std::string_view rest;
};

std::optional<TensorName> split_name(std::string_view name) {
  TensorName split;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), split.sequence);
  const auto digits = static_cast<size_t>(read.ptr - name.data());
  if (read.ec != std::errc() || digits + 1 >= name.size() || name[digits] != '.') {
    return std::nullopt;
  }
  split.rest = name.substr(digits + 1);
  return split;
}

template <typename T>
std::vector<T> values_of(const models::StoredTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

class TraceReader {
 public:
  explicit TraceReader(const std::string& path) : path_(path) {}

  Status read_token_ids(const models::StoredTensor& tensor) {
    const auto name = split_name(tensor.name);
    if (!name) return no_trace(path_, tensor.name, "has no number of a sequence");
    if (name->rest != kTokenIds) return absl::OkStatus();
    if (tensor.dtype != DType::kInt32 || tensor.shape.rank() != 1 || tensor.shape[0] == 0) {
      return no_trace(path_, tensor.name, "is not I32 with one dimension");
    }
    if (name->sequence >= kMostSequences) return no_trace(path_, tensor.name, "is too high");
    if (trace_.size() <= name->sequence) trace_.resize(name->sequence + 1);
    trace_[name->sequence].token_ids = values_of<int32_t>(tensor);
    return absl::OkStatus();
  }

  Status read_point(const models::StoredTensor& tensor) {
    const TensorName name = *split_name(tensor.name);
    if (name.rest == kTokenIds) return absl::OkStatus();
    const auto point = parse_point(name.rest);
    if (!point) return no_trace(path_, tensor.name, "names no place of a forward pass");
    if (name.sequence >= trace_.size() || trace_[name.sequence].token_ids.empty()) {
      return no_trace(path_, tensor.name, "has no token_ids beside it");
    }
    SequenceTrace& sequence = trace_[name.sequence];
    const auto positions = static_cast<int64_t>(sequence.token_ids.size());
    if (tensor.dtype != DType::kFloat32 || tensor.shape.rank() != 2 ||
        tensor.shape[0] > positions) {
      return no_trace(path_, tensor.name, "is not F32 with at most one row for each token");
    }
    PointRows rows(positions, tensor.shape[1]);
    const std::vector<float> values = values_of<float>(tensor);
    for (int64_t i = 0; i < tensor.shape[0]; ++i) rows.set(i, values.data() + i * rows.width());
    sequence.points.insert_or_assign(*point, std::move(rows));
    return absl::OkStatus();
  }

  StatusOr<Trace> finish() && {
    for (const SequenceTrace& sequence : trace_) {
      if (!sequence.token_ids.empty()) continue;
      return absl::DataLossError(
          fmt::format("{}: sequence {} has no token_ids", path_, &sequence - trace_.data()));
    }
    if (!trace_.empty()) return std::move(trace_);
    return absl::DataLossError(fmt::format("{}: there is no sequence in it", path_));
  }

 private:
  static constexpr size_t kMostSequences = 1 << 20;

  const std::string& path_;
  Trace trace_;
};

}  // namespace

Status write_trace(const std::string& path, const Trace& trace, const std::string& source) {
  TensorFile file;
  for (size_t i = 0; i < trace.size(); ++i) {
    const SequenceTrace& sequence = trace[i];
    const std::span<const int32_t> ids(sequence.token_ids);
    file.add(fmt::format("{}.{}", i, kTokenIds), "I32", {ids.size()}, ids);
    for (const auto& [point, rows] : sequence.points) {
      const std::string name = fmt::format("{}.{}", i, point_name(point));
      const auto values = rows.leading();
      if (!values.ok()) return annotate(values.status(), name);
      const auto width = static_cast<size_t>(rows.width());
      file.add(name, "F32", {values->size() / width, width}, *values);
    }
  }
  return file.write(path, source);
}

StatusOr<Trace> read_trace(const std::string& path) {
  RLGEN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  RLGEN_ASSIGN_OR_RETURN(const auto tensors, models::parse_safetensors(file.bytes(), path));
  TraceReader reader(path);
  for (const auto& tensor : tensors) RLGEN_RETURN_IF_ERROR(reader.read_token_ids(tensor));
  for (const auto& tensor : tensors) RLGEN_RETURN_IF_ERROR(reader.read_point(tensor));
  return std::move(reader).finish();
}

}  // namespace rlgen::cli
