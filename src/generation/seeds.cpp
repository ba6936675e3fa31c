#include "generation/seeds.h"

#include <random>
#include <string>

#include "base/hash.h"

namespace rlgen::generation {

int64_t line_seed(int64_t run_seed, std::string_view id) {
  std::string key = "rlgen.seed/1";
  for (int shift = 0; shift < 64; shift += 8) {
    key.push_back(static_cast<char>(static_cast<uint64_t>(run_seed) >> shift));
  }
  key.append(id);
  return static_cast<int64_t>(digest_of(key).low >> 11);
}

int64_t draw_seed() {
  std::random_device device;
  const uint64_t high = device();
  const uint64_t low = device();
  return static_cast<int64_t>(((high << 32) ^ low) >> 11);
}

}  // namespace rlgen::generation
