#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor_view.h"

namespace rlgen {

// The tensors of a batch under their keys. Views: whoever made them keeps them alive.
using TensorColumns = std::map<std::string, TensorView, std::less<>>;

// OK where every row of the ids is `pad_value` from its length on. Looked at are input_ids and
// input_lengths, else output_ids and unpadded_sequence_lengths; ids are [batch, width], lengths
// [batch], of any integer types. What stands before the length is not looked at. Errors:
//   no pad value (the tokenizer has none): error type AssertionError
//   kInvalidArgument: neither pair of keys, another rank, another number of lengths, a length
//   below 0 or beyond the width, and the first row with something else behind its end, with the
//   positions
Status verify_right_padding(const TensorColumns& columns, std::optional<int64_t> pad_value);

}  // namespace rlgen
