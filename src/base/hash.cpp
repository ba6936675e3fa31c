#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

namespace rlgen {
namespace {

Digest from_xxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

std::optional<unsigned> hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<unsigned>(digit - 'a') + 10;
  if (digit >= 'A' && digit <= 'F') return static_cast<unsigned>(digit - 'A') + 10;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_hex64(std::string_view hex) {
  std::uint64_t value = 0;
  for (const char digit : hex) {
    const auto nibble = hex_value(digit);
    if (!nibble) return std::nullopt;
    value = (value << 4) | *nibble;
  }
  return value;
}

}  // namespace

struct DigestStream::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest_of(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest digest_of(std::string_view bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

std::optional<Digest> parse_digest(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  const auto high = parse_hex64(hex.substr(0, 16));
  const auto low = parse_hex64(hex.substr(16));
  if (!high || !low) return std::nullopt;
  return Digest{*high, *low};
}

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh.get());
}
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;
DigestStream::~DigestStream() = default;

void DigestStream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

void DigestStream::update(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

Digest DigestStream::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh.get())); }

}  // namespace rlgen
