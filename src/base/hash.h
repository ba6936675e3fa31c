#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlgen {

// 128 bits of XXH3: the same on every machine and in every build. Guards against accidents, not
// against an adversary.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // 32 lower-case hexadecimal digits, `high` first.
  std::string hex() const;

  friend auto operator<=>(const Digest&, const Digest&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Digest& digest) {
    return H::combine(std::move(state), digest.high, digest.low);
  }
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view bytes);

// The digest whose hex() is `hex` (upper case accepted too); nothing for any other text.
std::optional<Digest> parse_digest(std::string_view hex);

// digest_of for bytes that arrive in pieces: how they are cut makes no difference. Move only;
// one thread at a time.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes);

  // Digest of what came so far; more may follow.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlgen
