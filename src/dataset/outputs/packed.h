#pragma once
// Tokenised examples for the trainer: SPLIT.tokens (int32), SPLIT.mask (uint8, 1 = learned) and SPLIT.offsets (u64, one
// more than examples), one after another, and SPLIT.json with their counts, checksums and the tokenizer's.
// Memory-mapped; which examples make a step is decided while training.
#include <cstdint>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "tokenizer/chat_codec.h"

namespace tritonforge::dataset {

class PackedTokens {
 public:
  // `stem`: FOLDER/train. Throws kNotFound, kCorrupt where the files do not fit one another.
  explicit PackedTokens(const fs::path& stem);
  size_t size() const { return offsets_.size() - 1; }
  int64_t length(size_t example) const { return static_cast<int64_t>(offsets_[example + 1] - offsets_[example]); }
  tokenizer::MaskedTokens example(size_t index) const;
  int64_t tokens() const { return static_cast<int64_t>(offsets_.back()); }
  const std::string& tokenizer() const { return tokenizer_; }  // checksum of its tokenizer.json
  bool enable_thinking() const { return enable_thinking_; }

 private:
  MappedFile token_file_, mask_file_, offset_file_;
  std::span<const uint64_t> offsets_;
  std::string tokenizer_;
  bool enable_thinking_ = true;
};

// What a tokenizer is known by: the checksum of what it would save as tokenizer.json.
std::string checksum_of_tokenizer(const fs::path& tokenizer);

// Which example stands at a position of an endless sequence of shuffled epochs: a function of (seed, position) alone,
// so that training goes on at any sample, and that whichever ranks share the positions of a step, the step is the same.
class SampleOrder {
 public:
  SampleOrder(size_t examples, uint64_t seed) : examples_(examples), seed_(seed) {}
  size_t at(uint64_t position);

 private:
  size_t examples_;
  uint64_t seed_, epoch_ = ~uint64_t{0};
  std::vector<size_t> order_;  // of epoch_
};

}  // namespace tritonforge::dataset
