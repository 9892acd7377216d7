#pragma once
// What a request does to its own logits as its answer grows: penalties, biases, tokens that may not come yet.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/logit_work.h"
#include "engine/request.h"

namespace tritonforge::engine {

// Of one sample. Penalties count the tokens that were generated, the prompt's are not among them (as in SGLang). With
// c occurrences of a token: repetition_penalty scales its logit where c > 0, then frequency_penalty * c +
// presence_penalty are taken off, then logit_bias is added.
class LogitRules {
 public:
  // `stop_ids`: forbidden for the first min_new_tokens tokens.
  LogitRules(const SamplingParams& sampling, std::span<const int64_t> stop_ids);
  static bool needed(const SamplingParams& sampling);
  void accept(int64_t token);
  // For the next draw; valid until the next accept().
  std::span<const LogitEdit> edits() const { return edits_; }

 private:
  struct Token {
    size_t edit;  // its place in edits_
    int64_t count = 0;
    double bias = 0;
    bool stops = false;
  };
  Token& token_of(int64_t id);
  void refresh(int64_t id);

  const double repetition_, frequency_, presence_;
  const int64_t min_new_tokens_;
  const std::vector<int64_t> stop_ids_;
  int64_t accepted_ = 0;
  std::unordered_map<int64_t, Token> tokens_;
  std::vector<LogitEdit> edits_;  // one a token of tokens_
};

}  // namespace tritonforge::engine
