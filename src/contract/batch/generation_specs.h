#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "contract/host_tensor.h"
#include "tensor/tensor_view.h"

namespace rlgen {

// Prompts for generate(): B rows of token ids, right-padded to a common width P. Borrowed: whoever
// fills it in keeps the tensors alive during the call.
struct GenerationDatumSpec {
  TensorView input_ids;      // [B, P] integers
  TensorView input_lengths;  // [B] integers, 0 .. P
  // Per row, beside the configured ones; none or B of them.
  std::vector<std::vector<std::string>> stop_strings;
  // Per row, none or B of them, each at least 0; without one a row gets a seed of its own.
  std::vector<int64_t> seeds;
};

// What generate() gives: row i belongs to row i of the input. L are a row's prompt tokens, G its
// generated ones, T is at least the greatest L + G. A column that is not present() is not there.
struct GenerationOutputSpec {
  HostTensor output_ids;          // [B, T], type of input_ids: prompt, generated tokens, pad ids
  HostTensor generation_lengths;  // [B] int64: G
  HostTensor unpadded_sequence_lengths;  // [B] int64: L + G
  HostTensor logprobs;   // [B, T] float32: of the token at the place; 0 over prompt and padding
  HostTensor truncated;  // [B] bool: ended by a limit on its length

  // With routes, all four or none. [B, T, layers, top-k] and [B] int64; see lay_out_routes.
  HostTensor routed_experts;
  HostTensor r3_routed_experts_missing_routes;
  HostTensor r3_routed_experts_expected_routes;
  HostTensor r3_routed_experts_actual_routes;

  HostTensor weight_versions;               // [B, T] int64 of the token; -1 over prompt and padding
  HostTensor seeds;                         // [B] int64; -1 where it is not known
  HostTensor context_full;                  // [B] bool: no position of the context was left
  std::vector<std::string> finish_reasons;  // [B] "stop", "length", "abort"
  std::string logprobs_mode;                // "raw", "tempered" or "processed"
};

// How the rows of a column are filled up when it gets wider.
enum class RowFill { kNone, kZero, kPadId, kMinusOne, kDummyRoute };

// One tensor of GenerationOutputSpec.
struct OutputColumn {
  std::string_view name;
  HostTensor GenerationOutputSpec::*tensor;
  bool required = false;
  RowFill fill = RowFill::kNone;
};

// Every tensor of GenerationOutputSpec, in the order of its fields.
inline constexpr std::array<OutputColumn, 12> kOutputColumns = {
    {{"output_ids", &GenerationOutputSpec::output_ids, true, RowFill::kPadId},
     {"generation_lengths", &GenerationOutputSpec::generation_lengths, true},
     {"unpadded_sequence_lengths", &GenerationOutputSpec::unpadded_sequence_lengths, true},
     {"logprobs", &GenerationOutputSpec::logprobs, true, RowFill::kZero},
     {"truncated", &GenerationOutputSpec::truncated},
     {"routed_experts", &GenerationOutputSpec::routed_experts, false, RowFill::kDummyRoute},
     {"r3_routed_experts_missing_routes", &GenerationOutputSpec::r3_routed_experts_missing_routes},
     {"r3_routed_experts_expected_routes",
      &GenerationOutputSpec::r3_routed_experts_expected_routes},
     {"r3_routed_experts_actual_routes", &GenerationOutputSpec::r3_routed_experts_actual_routes},
     {"weight_versions", &GenerationOutputSpec::weight_versions, false, RowFill::kMinusOne},
     {"seeds", &GenerationOutputSpec::seeds},
     {"context_full", &GenerationOutputSpec::context_full}}};

// Rows [begin, end) of a batch.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

// Shares of `rows` rows for `shards` shards, in order: each ceil(rows / shards), the last ones
// fewer or none. `shards` is at least 1 (asserted).
std::vector<RowRange> shard_rows(int64_t rows, int32_t shards);

}  // namespace rlgen
