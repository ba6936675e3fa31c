#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "contract/host_tensor.h"

namespace rlgen {

// How many routes of one sample there should be, were delivered, are not there, and are there
// beyond the one that is tolerated.
struct RouteCounts {
  int64_t expected = 0;
  int64_t actual = 0;
  int64_t missing = 0;
  int64_t surplus = 0;

  bool operator==(const RouteCounts&) const = default;
};

// Which sample the rows are laid out for.
struct RouteLayout {
  int64_t valid_length = 0;   // prompt and generated tokens
  int64_t padded_length = 0;  // rows of the result
  DType dtype = DType::kInt16;
  bool must_be_complete = true;  // more than one surplus row is an error
  int64_t cached_tokens = 0;     // for that error: tokens of the sample that a prefix cache gave
};

// Routes of one sample [padded_length, layers, top-k] out of the delivered ones [rows, layers,
// top-k] (integers). Expected are valid_length - 1 rows: the last token is never fed back. They
// are copied as far as delivered, the rest of them is the sentinel; every row behind is the dummy
// route 0, 1, ..., top-k - 1: ids that are legal and distinct. A delivered row for the last token
// is not used. kInvalidArgument: another rank than 3, no integers, an id that does not fit `dtype`
// (the number of experts was taken for too small) or is below the sentinel, a row of one layer that
// holds the sentinel beside ids, and with must_be_complete more than expected + 1 rows.
StatusOr<HostTensor> lay_out_routes(const TensorView& delivered, const RouteLayout& layout,
                                    RouteCounts* counts);

}  // namespace rlgen
