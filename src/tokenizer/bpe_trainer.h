#pragma once
// Byte-level BPE training (Sennrich et al. 2016) with Qwen's pre-tokenizer pattern, for tiny models of one's own.
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "tokenizer/definition.h"

namespace tritonforge::tokenizer {

struct BpeTrainerOptions {
  int64_t vocab_size = 4096;                               // all ids: 256 bytes, merges, special tokens
  int64_t min_frequency = 2;                               // of a pair
  std::vector<AddedToken> added = default_added_tokens();  // ids are given by the trainer, after the merges
  std::string eos = "<|im_end|>";

  // <|endoftext|> <|im_start|> <|im_end|> (special), <think> </think>
  static std::vector<AddedToken> default_added_tokens();
};

// Deterministic: the most frequent pair first, of equals the one of lower ids. May stop below vocab_size where no pair
// is frequent enough. Throws kUsage where vocab_size has no room for the bytes and the added tokens. The chat template
// is plain ChatML.
TokenizerDefinition train_bpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options = {});

// Trains and writes tokenizer.json and tokenizer_config.json.
void train_bpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options, const fs::path& folder);

}  // namespace tritonforge::tokenizer
