#include "base/sip_hash.h"

#include <bit>
#include <cstring>

namespace tritonforge {
namespace {

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t sip_hash(const SipKey& key, std::string_view text) {
  State state{key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull, key[0] ^ 0x6c7967656e657261ull,
              key[1] ^ 0x7465646279746573ull};
  // Little-endian words; the last one holds what is left and the length's lowest byte.
  size_t at = 0;
  for (; text.size() - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    state.take(word);
  }
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  std::memcpy(&last, text.data() + at, text.size() - at);
  state.take(last);
  state.v2 ^= 0xff;
  for (int k = 0; k < 4; ++k) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace tritonforge
