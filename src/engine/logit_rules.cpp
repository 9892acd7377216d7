#include "engine/logit_rules.h"

namespace tritonforge::engine {

LogitRules::LogitRules(const SamplingParams& sampling, std::span<const int64_t> stop_ids)
    : repetition_(sampling.repetition_penalty),
      frequency_(sampling.frequency_penalty),
      presence_(sampling.presence_penalty),
      min_new_tokens_(sampling.min_new_tokens),
      stop_ids_(stop_ids.begin(), stop_ids.end()) {
  for (const auto& [id, bias] : sampling.logit_bias) token_of(id).bias = bias;
  if (min_new_tokens_ > 0) {
    for (const int64_t id : stop_ids_) token_of(id).stops = true;
  }
  for (const auto& [id, token] : tokens_) refresh(id);
}

bool LogitRules::needed(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0 ||
         sampling.min_new_tokens > 0 || !sampling.logit_bias.empty();
}

void LogitRules::accept(int64_t token) {
  ++accepted_;
  if (repetition_ != 1 || frequency_ != 0 || presence_ != 0) {
    ++token_of(token).count;
    refresh(token);
  }
  if (accepted_ == min_new_tokens_) {
    for (const int64_t id : stop_ids_) refresh(id);
  }
}

LogitRules::Token& LogitRules::token_of(int64_t id) {
  const auto [found, added] = tokens_.try_emplace(id, Token{.edit = edits_.size()});
  if (added) edits_.push_back({id});
  return found->second;
}

void LogitRules::refresh(int64_t id) {
  const Token& token = token_of(id);
  LogitEdit& edit = edits_[token.edit];
  edit.repetition = token.count > 0 ? static_cast<float>(repetition_) : 1;
  const double penalty = token.count > 0 ? frequency_ * static_cast<double>(token.count) + presence_ : 0;
  edit.shift = token.stops && accepted_ < min_new_tokens_ ? kForbidden : static_cast<float>(token.bias - penalty);
}

}  // namespace tritonforge::engine
