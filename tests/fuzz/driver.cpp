// Runs a fuzz target without libFuzzer: deterministic mutations of its own seeds, a bounded number of rounds.
// A target is `int fuzz_one(const uint8_t* data, size_t size)`, which must return 0 and never crash, and
// `std::vector<std::string> fuzz_seeds()`. Set FUZZ_ROUNDS for a longer run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

int fuzz_one(const uint8_t* data, size_t size);
std::vector<std::string> fuzz_seeds();

namespace {
std::string mutate(std::string text, std::mt19937_64& rng) {
  const int edits = 1 + static_cast<int>(rng() % 8);
  for (int i = 0; i < edits; ++i) {
    const size_t at = text.empty() ? 0 : rng() % text.size();
    switch (rng() % 5) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(rng());
        break;
      case 1: text.insert(at, 1, static_cast<char>(rng())); break;
      case 2:
        if (!text.empty()) text.erase(at, 1 + rng() % 8);
        break;
      case 3: text.resize(text.empty() ? 0 : rng() % text.size()); break;
      default: text.insert(at, text.substr(at, rng() % 16)); break;
    }
  }
  return text;
}
}  // namespace

int main() {
  const char* rounds_text = std::getenv("FUZZ_ROUNDS");
  const long rounds = rounds_text ? std::atol(rounds_text) : 3000;
  const auto seeds = fuzz_seeds();
  std::mt19937_64 rng(20261121);
  long runs = 0;
  for (const auto& seed : seeds) {
    if (fuzz_one(reinterpret_cast<const uint8_t*>(seed.data()), seed.size()) != 0) return 1;
    std::string text = seed;
    for (long i = 0; i < rounds; ++i, ++runs) {
      text = i % 16 == 0 ? mutate(seed, rng) : mutate(text, rng);
      if (text.size() > (1u << 16)) text = seed;
      if (fuzz_one(reinterpret_cast<const uint8_t*>(text.data()), text.size()) != 0) return 1;
    }
  }
  std::printf("%ld inputs, no failure\n", runs);
  return 0;
}
