#pragma once

#include <cstdint>
#include <string>

namespace rlgen {

// Everything beside the weights that decides bits. Two shards with equal ids give equal bits; a
// sequence is never continued by a shard with another id.
struct NumericsId {
  std::string profile = "float32";  // "float32", "bfloat16" or "bfloat16_amx"
  int32_t revision = 1;             // counts changes of the rules in docs/numbers.md
  std::string kv_dtype = "float32";
  std::string rotary = "default";  // scaling in force, with the context it was fixed for
  std::string model_digest;        // hex digest of configuration and shapes, not of weights

  bool operator==(const NumericsId&) const = default;

  // "float32/r1/kv=float32/rope=default/<digest>"
  std::string to_string() const;
};

}  // namespace rlgen
