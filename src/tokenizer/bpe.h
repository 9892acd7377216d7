#pragma once
// Byte-level BPE over one word: the merge of lowest rank, leftmost first, until none applies.
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace tritonforge::tokenizer {

struct BpeMerge {  // in order of rank; a pair that comes twice has its last rank, as the reference does
  uint32_t left, right, result;
};

// What recent words became. Direct-mapped, so bounded; not shared between threads.
class WordCache {
 public:
  static constexpr size_t kSlots = size_t{1} << 15;
  static constexpr size_t kLongestWord = 30, kMostTokens = 8;

  WordCache() : slots_(kSlots) {}

 private:
  friend class BpeModel;
  struct alignas(64) Slot {
    uint8_t length = 0;  // 0 = empty
    uint8_t count = 0;
    char word[kLongestWord];
    uint32_t ids[kMostTokens];
  };
  std::vector<Slot> slots_;
};

class BpeModel {
 public:
  BpeModel(const std::array<uint32_t, 256>& byte_ids, const std::vector<BpeMerge>& merges);
  void encode_word(std::string_view word, WordCache& cache, std::vector<int64_t>& out) const;

 private:
  struct Merged {
    uint32_t rank, id;
  };
  struct Slot {
    uint64_t pair;
    Merged merged;
  };
  Merged lookup(uint32_t left, uint32_t right) const;
  size_t merge_short(std::string_view word, uint32_t* ids) const;  // at most kShort bytes; how many ids
  void merge_long(std::string_view word, std::vector<int64_t>& out) const;

  static constexpr size_t kShort = 64;
  std::array<uint32_t, 256> byte_ids_;
  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace tritonforge::tokenizer
