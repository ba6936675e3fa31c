#pragma once

#include <rlgen_text.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen::text {

// Owns a buffer of the Rust crate. Used inside this module only.
class RustBuffer {
 public:
  RustBuffer() = default;
  RustBuffer(const RustBuffer&) = delete;
  RustBuffer& operator=(const RustBuffer&) = delete;
  ~RustBuffer() { rt_buffer_free(buffer_); }

  // To be filled by one call of the crate.
  RtBuffer* out() { return &buffer_; }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(buffer_.data), buffer_.len};
  }
  std::string text() const { return std::string(view()); }

 private:
  RtBuffer buffer_{nullptr, 0, 0};
};

// The error of a call that returned `code` and left its message in `buffer`: kInvalidArgument where
// the crate refused, kInternal where it failed. OK for code 0.
inline Status rust_status(int32_t code, const RustBuffer& buffer) {
  if (code == 0) return {};
  return code == 1 ? absl::InvalidArgumentError(buffer.text()) : absl::InternalError(buffer.text());
}

inline const uint8_t* rust_bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

}  // namespace rlgen::text
