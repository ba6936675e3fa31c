#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "models/safetensors.h"

// Whatever the file says, a tensor that is accepted lies inside the file and has the size of its
// shape.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto tensors = rlgen::models::parse_safetensors(file, "fuzz.safetensors");
  if (!tensors.ok()) return 0;
  for (const auto& tensor : *tensors) {
    const auto bytes = rlgen::num_bytes(tensor.shape, tensor.dtype);
    const bool sized = bytes.ok() && *bytes == static_cast<std::int64_t>(tensor.bytes.size());
    const std::less_equal<> not_after;
    const bool inside =
        tensor.bytes.empty() ||
        (not_after(file.data(), tensor.bytes.data()) &&
         not_after(tensor.bytes.data() + tensor.bytes.size(), file.data() + file.size()));
    if (!sized || !inside) __builtin_trap();
  }
  return 0;
}
