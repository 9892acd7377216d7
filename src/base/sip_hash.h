#pragma once
// SipHash-2-4 (Aumasson, Bernstein 2012), a keyed pseudo-random function: who lacks the key can neither foretell a
// value from others nor find the key. Rng::derive is a bijection of its seed, and no secret.
#include <array>
#include <cstdint>
#include <string_view>

namespace tritonforge {

using SipKey = std::array<uint64_t, 2>;
uint64_t sip_hash(const SipKey& key, std::string_view text);

}  // namespace tritonforge
