#pragma once
// The text of one sample while its tokens come: finds stop strings wherever the tokens cut them, and holds back what
// may still become one.
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tritonforge::engine {

class SampleText {
 public:
  // `keep_stop`: the text ends after the stop string instead of before it.
  SampleText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, bool skip_special_tokens,
             bool keep_stop);
  // True once a stop string is complete; the text is then final and matched() names it. Where one token completes
  // several, the one that ends first wins, and of those the one that begins first.
  bool feed(int64_t token);
  // No more tokens: what was held back belongs to the text (and may complete a stop string: feed()'s rule).
  void finish();
  const std::string& matched() const { return matched_; }
  // What no later token can take back. Valid until the next call.
  std::string_view settled() const;
  const std::string& text() const { return text_; }

 private:
  bool append(const std::string& part);
  tokenizer::StreamDecoder decoder_;
  std::vector<std::string> stops_;
  size_t longest_stop_ = 0;
  bool keep_stop_;
  std::string text_, matched_;
};

}  // namespace tritonforge::engine
