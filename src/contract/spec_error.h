#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen {

// `error` as one about the field `field` of a ShardSpec, which its message names. Callers whose
// users set the field under another name learn from it which one is wrong.
Status spec_error(std::string_view field, Status error);

// The field that an error is about; empty for any other status.
std::string spec_field_of(const Status& status);

}  // namespace rlgen
