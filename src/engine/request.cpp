#include "engine/request.h"

#include <iterator>

namespace tritonforge::engine {

void SamplingParams::validate(int64_t vocab_size) const {
  const auto bad = [](const char* field, const char* rule, const auto& value) {
    fail(ErrorKind::kUsage, "sampling_params.{} must be {}, not {}", field, rule, value);
  };
  SamplingParams checked = *this;
  options_of(checked).validate("sampling_params.");
  // Logits are 32-bit numbers, and have to stay some.
  if (temperature > 0 && !(temperature >= 1e-4 && temperature <= 1e30))
    bad("temperature", "0 (greedy) or between 0.0001 and 1e30", temperature);
  if (repetition_penalty < 1e-4) bad("repetition_penalty", "at least 0.0001", repetition_penalty);
  if (top_k == 0) bad("top_k", "-1 (all) or at least 1", top_k);
  if (min_new_tokens > max_new_tokens) bad("min_new_tokens", "at most max_new_tokens", min_new_tokens);
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kUsage, "sampling_params.logit_bias names token {}, outside the vocabulary of {}", id,
           vocab_size);
    if (!(bias >= -100 && bias <= 100)) bad("logit_bias", "between -100 and 100", bias);
  }
  if (stop.size() > 64) bad("stop", "at most 64 strings", stop.size());
  for (const auto& text : stop) {
    if (text.empty()) fail(ErrorKind::kUsage, "sampling_params.stop holds an empty string");
    if (text.size() > 4096) bad("stop", "strings of at most 4096 bytes", text.size());
  }
  for (const int64_t id : stop_token_ids) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorKind::kUsage, "sampling_params.stop_token_ids holds {}, outside the vocabulary of {}", id, vocab_size);
    }
  }
}

void LogProbsWanted::validate(int64_t vocab_size, int64_t prompt_tokens) const {
  if (top < 0 || top > kMostTop)
    fail(ErrorKind::kUsage, "top_logprobs_num must be between 0 and {}, not {}", kMostTop, top);
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kUsage, "token_ids_logprob holds {}, outside the vocabulary of {}", id, vocab_size);
  }
  if (prompt_from < -1 || prompt_from >= prompt_tokens)
    fail(ErrorKind::kUsage, "logprob_start_len must be -1 (none) or below the prompt's {} tokens, not {}",
         prompt_tokens, prompt_from);
}

namespace {

template <typename T>
void join(std::vector<T>& whole, std::vector<T>&& part) {
  whole.insert(whole.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
}

}  // namespace

void Sample::append(Sample&& part) {
  join(output_ids, std::move(part.output_ids));
  join(log_probs, std::move(part.log_probs));
  join(top_log_probs, std::move(part.top_log_probs));
  join(ids_log_probs, std::move(part.ids_log_probs));
  join(weight_versions, std::move(part.weight_versions));
  text += part.text;
  mixed_cache = mixed_cache || part.mixed_cache;
  if (finish != FinishReason::kNone) return;
  finish = part.finish;
  matched_token = part.matched_token;
  matched_text = std::move(part.matched_text);
  abort_message = std::move(part.abort_message);
}

void Output::append(Output&& part) {
  std::vector<Sample> whole = std::move(samples);
  whole.resize(part.samples.size());
  for (size_t i = 0; i < whole.size(); ++i) whole[i].append(std::move(part.samples[i]));
  PromptLogProbs of_prompt = std::move(prompt);
  join(of_prompt.log_probs, std::move(part.prompt.log_probs));
  join(of_prompt.top, std::move(part.prompt.top));
  join(of_prompt.ids, std::move(part.prompt.ids));
  *this = std::move(part);
  samples = std::move(whole);
  prompt = std::move(of_prompt);
}

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kAbort: return "abort";
  }
  return "none";
}

}  // namespace tritonforge::engine
