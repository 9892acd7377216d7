#include "engine/logit_rules.h"

namespace tritonforge::engine {

LogitRules::LogitRules(const SamplingParams& sampling, std::span<const int64_t> stop_ids)
    : repetition_(sampling.repetition_penalty),
      frequency_(sampling.frequency_penalty),
      presence_(sampling.presence_penalty),
      min_new_tokens_(sampling.min_new_tokens),
      bias_(sampling.logit_bias),
      stop_ids_(stop_ids.begin(), stop_ids.end()) {}

bool LogitRules::needed(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0 ||
         sampling.min_new_tokens > 0 || !sampling.logit_bias.empty();
}

void LogitRules::accept(int64_t token) {
  ++accepted_;
  if (repetition_ != 1 || frequency_ != 0 || presence_ != 0) ++counts_[token];
}

std::span<const LogitEdit> LogitRules::edits() {
  std::map<int64_t, LogitEdit> by_token;
  const auto edit = [&](int64_t token) -> LogitEdit& {
    return by_token.try_emplace(token, LogitEdit{token}).first->second;
  };
  for (const auto& [token, count] : counts_) {
    LogitEdit& penalised = edit(token);
    penalised.repetition = static_cast<float>(repetition_);
    penalised.shift -= static_cast<float>(frequency_ * static_cast<double>(count) + presence_);
  }
  for (const auto& [token, bias] : bias_) edit(token).shift += static_cast<float>(bias);
  if (accepted_ < min_new_tokens_) {
    for (const int64_t token : stop_ids_) edit(token).shift = kForbidden;
  }
  edits_.clear();
  for (const auto& [token, each] : by_token) edits_.push_back(each);
  return edits_;
}

}  // namespace tritonforge::engine
