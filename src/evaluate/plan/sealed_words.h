// An expected output's bytes under a mask, in blocks of 16: to put the mask on, and to compare what was computed with
// what is below it, which is opened a block at a time and never lies in memory. Compiled twice: by NVRTC, for a GPU
// (the text is handed to it as it stands, so it includes nothing), and by this compiler, as its twin on the CPU. The
// GPU's has the timer's gate, too.
#pragma once
#ifdef __CUDACC__
#define TF_BOTH __device__ inline
#else
#define TF_BOTH inline
#endif

namespace tritonforge::evaluate::sealed {

enum Kind { kReal64, kReal32, kHalf, kBFloat16, kBytes };  // of an element; kBytes are compared as such

struct Difference {
  double squares;             // of the finite elements' errors, their sum
  unsigned long long finite;  // elements that are so on both sides
  unsigned long long wrong;   // elements beyond |c - r| <= absolute + relative |r| (compare.h)
};

struct alignas(16) Words {
  unsigned of[4];
};

// Philox4x32-10 (Salmon et al., SC 2011) of counter `block`, key `seed`.
TF_BOTH Words mask(unsigned long long seed, unsigned long long block) {
  unsigned key[2] = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
  Words c{{static_cast<unsigned>(block), static_cast<unsigned>(block >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const unsigned long long first = 0xD2511F53ull * c.of[0], second = 0xCD9E8D57ull * c.of[2];
    c = {{static_cast<unsigned>(second >> 32) ^ c.of[1] ^ key[0], static_cast<unsigned>(second),
          static_cast<unsigned>(first >> 32) ^ c.of[3] ^ key[1], static_cast<unsigned>(first)}};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

// Puts it on, or takes it off.
TF_BOTH Words masked(Words words, unsigned long long seed, unsigned long long block) {
  const Words bits = mask(seed, block);
  for (int k = 0; k < 4; ++k) words.of[k] ^= bits.of[k];
  return words;
}

TF_BOTH float real_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
TF_BOTH float of_half(unsigned bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) {  // zero, and what is below the normal ones: 2^-24 each
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  return real_of(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13);
}

TF_BOTH bool is_finite(double x) { return x - x == 0; }
TF_BOTH void add(Difference& all, double mine, double theirs, double absolute, double relative) {
  if (is_finite(mine) && is_finite(theirs)) {
    const double error = mine > theirs ? mine - theirs : theirs - mine;
    all.squares += error * error;
    all.finite += 1;
    all.wrong += !(error <= absolute + relative * (theirs < 0 ? -theirs : theirs));
  } else {
    all.wrong += !(mine == theirs || (mine != mine && theirs != theirs));
  }
}

// Element k of a block.
template <Kind kind>
TF_BOTH double element(const Words& words, int k) {
  if (kind == kReal64)
    return __builtin_bit_cast(double, static_cast<unsigned long long>(words.of[2 * k + 1]) << 32 | words.of[2 * k]);
  if (kind == kReal32) return static_cast<double>(real_of(words.of[k]));
  const unsigned half = words.of[k / 2] >> 16 * (k % 2) & 0xffff;
  return static_cast<double>(kind == kHalf ? of_half(half) : real_of(half << 16));
}

// `from`: `bytes` bytes, aligned as its type and no more than that. What is beyond them is 0.
template <typename Part>
TF_BOTH Words block_of(const void* from, unsigned long long block, unsigned long long bytes) {
  constexpr int size = sizeof(Part);
  Words words{};
  for (int k = 0; k < 16 / size; ++k) {
    const unsigned long long at = 16 * block + static_cast<unsigned long long>(k * size);
    if (at < bytes)
      words.of[k * size / 4] |= static_cast<unsigned>(static_cast<const Part*>(from)[at / size]) << 8 * (k * size % 4);
  }
  return words;
}

template <Kind kind, typename Part, int size>
TF_BOTH void compare(Difference& all, const Words& expected, const void* computed, unsigned long long block,
                     unsigned long long bytes, double absolute, double relative) {
  const Words mine = block_of<Part>(computed, block, bytes);
  for (int k = 0; k < 16 / size; ++k) {
    if (16 * block + static_cast<unsigned long long>(k * size) >= bytes) return;
    if (kind == kBytes) all.wrong += ((mine.of[k / 4] ^ expected.of[k / 4]) >> 8 * (k % 4) & 0xff) != 0;
    else add(all, element<kind>(mine, k), element<kind>(expected, k), absolute, relative);
  }
}

// `computed`: a whole tensor of `bytes` bytes, whose block is compared.
TF_BOTH void compare(Difference& all, const Words& expected, const void* computed, unsigned long long block,
                     unsigned long long bytes, Kind kind, double absolute, double relative) {
  switch (kind) {
    case kReal64: return compare<kReal64, unsigned, 8>(all, expected, computed, block, bytes, absolute, relative);
    case kReal32: return compare<kReal32, unsigned, 4>(all, expected, computed, block, bytes, absolute, relative);
    case kHalf: return compare<kHalf, unsigned short, 2>(all, expected, computed, block, bytes, absolute, relative);
    case kBFloat16:
      return compare<kBFloat16, unsigned short, 2>(all, expected, computed, block, bytes, absolute, relative);
    case kBytes: return compare<kBytes, unsigned char, 1>(all, expected, computed, block, bytes, absolute, relative);
  }
}

}  // namespace tritonforge::evaluate::sealed

#ifdef __CUDACC__
// Without `computed` the mask is put on `words`, which is a multiple of 16 bytes; with it what differs is added to
// `found`.
namespace tritonforge::evaluate::sealed {
__device__ inline void add_up(Difference& to, const Difference& part) {
  atomicAdd(&to.squares, part.squares);
  atomicAdd(&to.finite, part.finite);
  atomicAdd(&to.wrong, part.wrong);
}
}  // namespace tritonforge::evaluate::sealed

extern "C" __global__ void sealed_words(tritonforge::evaluate::sealed::Words* words, unsigned long long bytes,
                                        unsigned long long seed, const void* computed, int kind, double absolute,
                                        double relative, tritonforge::evaluate::sealed::Difference* found) {
  using namespace tritonforge::evaluate::sealed;
  Difference mine{};
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long k = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x; 16 * k < bytes;
       k += stride) {
    const Words other = masked(words[k], seed, k);
    if (computed == nullptr) words[k] = other;
    else compare(mine, other, computed, k, bytes, static_cast<Kind>(kind), absolute, relative);
  }
  if (computed == nullptr) return;
  __shared__ Difference block;
  if (threadIdx.x == 0) block = Difference{};
  __syncthreads();
  for (int lane = 16; lane > 0; lane /= 2) {
    mine.squares += __shfl_xor_sync(~0u, mine.squares, lane);
    mine.finite += __shfl_xor_sync(~0u, mine.finite, lane);
    mine.wrong += __shfl_xor_sync(~0u, mine.wrong, lane);
  }
  if (threadIdx.x % 32 == 0) add_up(block, mine);
  __syncthreads();
  if (threadIdx.x == 0) add_up(*found, block);
}

// Ends once `word`, which the host writes, is `ticket`, or after `most_ns` (gpu_gate.h).
extern "C" __global__ void gate(const volatile int* word, int ticket, unsigned long long most_ns) {
  const auto now = [] {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  };
  const unsigned long long begun = now();
  while (*word != ticket && now() - begun < most_ns) continue;
}
#endif
