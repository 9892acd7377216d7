#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/unicode.h"

namespace tritonforge::tokenizer {
namespace {

using Pair = uint64_t;
Pair pair_of(uint32_t left, uint32_t right) { return static_cast<Pair>(left) << 32 | right; }

struct Word {
  std::vector<uint32_t> ids;
  int64_t count;
};

class Trainer {
 public:
  explicit Trainer(std::map<std::string, int64_t> counts) {
    for (int byte = 0; byte < 256; ++byte) bytes_.push_back(std::string(1, static_cast<char>(byte)));
    for (const auto& [text, count] : counts) {
      Word word{{}, count};
      for (const char c : text) word.ids.push_back(static_cast<uint8_t>(c));
      words_.push_back(std::move(word));
    }
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const auto& ids = words_[w].ids;
      for (size_t i = 0; i + 1 < ids.size(); ++i) change(ids[i], ids[i + 1], words_[w].count, w);
    }
    offer_changed();
  }

  void train(size_t merges_wanted, int64_t min_frequency) {
    while (merges_.size() < merges_wanted && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const auto current = counts_.find(top.pair);
      if (current == counts_.end() || current->second != top.count) continue;  // an older offer
      if (top.count < min_frequency) return;
      apply(static_cast<uint32_t>(top.pair >> 32), static_cast<uint32_t>(top.pair));
    }
  }

  const std::vector<BpeMerge>& merges() const { return merges_; }
  const std::vector<std::string>& bytes() const { return bytes_; }

 private:
  struct Candidate {
    int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void change(uint32_t left, uint32_t right, int64_t by, uint32_t word) {
    const Pair pair = pair_of(left, right);
    counts_[pair] += by;
    if (by > 0) places_[pair].insert(word);
    changed_.push_back(pair);
  }

  void offer_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair pair : changed_) {
      if (counts_[pair] > 0) {
        queue_.push({counts_[pair], pair});
      } else {
        counts_.erase(pair);
        places_.erase(pair);
      }
    }
    changed_.clear();
  }

  void apply(uint32_t left, uint32_t right) {
    const std::string text = bytes_[left] + bytes_[right];
    const auto [known, is_new] = id_of_.emplace(text, static_cast<uint32_t>(bytes_.size()));
    if (is_new) bytes_.push_back(text);
    const uint32_t merged = known->second;
    merges_.push_back({left, right, merged});
    const std::unordered_set<uint32_t> places = std::move(places_[pair_of(left, right)]);
    for (const uint32_t w : places) {
      auto& ids = words_[w].ids;
      const int64_t count = words_[w].count;
      for (size_t i = 0; i + 1 < ids.size(); ++i) change(ids[i], ids[i + 1], -count, w);
      size_t out = 0;
      for (size_t i = 0; i < ids.size(); ++out) {
        const bool here = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        ids[out] = here ? merged : ids[i];
        i += here ? 2 : 1;
      }
      ids.resize(out);
      for (size_t i = 0; i + 1 < ids.size(); ++i) change(ids[i], ids[i + 1], count, w);
    }
    offer_changed();
  }

  std::vector<Word> words_;
  std::vector<std::string> bytes_;
  std::unordered_map<std::string, uint32_t> id_of_;
  std::vector<BpeMerge> merges_;
  std::unordered_map<Pair, int64_t> counts_;
  std::unordered_map<Pair, std::unordered_set<uint32_t>> places_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> changed_;
};

std::map<std::string, int64_t> count_words(const std::vector<std::string>& texts,
                                           const std::vector<AddedToken>& added) {
  AddedTokenFinder finder;
  for (const auto& token : added) finder.add(token.content, token.id);
  std::map<std::string, int64_t> counts;
  for (const auto& text : texts) {
    finder.split(
        text,
        [&](std::string_view piece) {
          const std::string normal = unicode::nfc(piece);
          const char* end = normal.data() + normal.size();
          for (const char* at = normal.data(); at < end;) {
            const char* next = next_word(at, end);
            ++counts[std::string(at, next)];
            at = next;
          }
        },
        [](int64_t) {});
  }
  return counts;
}

}  // namespace

std::vector<AddedToken> BpeTrainerOptions::default_added_tokens() {
  std::vector<AddedToken> added;
  for (const char* content : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    added.push_back({content, 0, true, false});
  for (const char* content : {"<think>", "</think>"}) added.push_back({content, 0, false, false});
  return added;
}

TokenizerDefinition train_bpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options) {
  const int64_t room = options.vocab_size - 256 - static_cast<int64_t>(options.added.size());
  if (room < 0) {
    fail(ErrorKind::kUsage, "a vocabulary of {} has no room for 256 bytes and {} added tokens", options.vocab_size,
         options.added.size());
  }
  Trainer trainer(count_words(texts, options.added));
  trainer.train(static_cast<size_t>(room), options.min_frequency);

  TokenizerDefinition definition;
  for (const auto& bytes : trainer.bytes()) definition.tokens.push_back(to_byte_alphabet(bytes));
  definition.merges = trainer.merges();
  definition.added = options.added;
  for (auto& token : definition.added) {
    token.id = static_cast<int64_t>(definition.tokens.size());
    definition.tokens.push_back(token.content);
    if (token.content == options.eos) definition.eos_id = token.id;
  }
  if (!definition.eos_id) fail(ErrorKind::kUsage, "the end token '{}' is not one of the added tokens", options.eos);
  definition.chat_template = kPlainChatTemplate;
  return definition;
}

void train_bpe(const std::vector<std::string>& texts, const BpeTrainerOptions& options, const fs::path& folder) {
  const TokenizerDefinition definition = train_bpe(texts, options);
  fs::create_directories(folder);
  write_file_atomic(folder / "tokenizer.json", write_tokenizer_json(definition));
  write_file_atomic(folder / "tokenizer_config.json", write_tokenizer_config_json(definition));
}

}  // namespace tritonforge::tokenizer
