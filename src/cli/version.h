#pragma once

namespace rlgen::cli {

inline constexpr char kVersion[] = "rlgen 0.1.0";

}  // namespace rlgen::cli
