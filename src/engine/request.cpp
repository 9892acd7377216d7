#include "engine/request.h"

namespace tritonforge::engine {

void SamplingParams::validate(int64_t vocab_size) const {
  const auto bad = [](const char* field, const char* rule, const auto& value) {
    fail(ErrorKind::kUsage, "sampling_params.{} must be {}, not {}", field, rule, value);
  };
  SamplingParams checked = *this;
  options_of(checked).validate("sampling_params.");
  if (temperature > 0 && temperature < 1e-4) bad("temperature", "0 (greedy) or at least 0.0001", temperature);
  if (top_k == 0) bad("top_k", "-1 (all) or at least 1", top_k);
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

void Sample::append(Sample&& part) {
  output_ids.insert(output_ids.end(), part.output_ids.begin(), part.output_ids.end());
  log_probs.insert(log_probs.end(), part.log_probs.begin(), part.log_probs.end());
  weight_versions.insert(weight_versions.end(), part.weight_versions.begin(), part.weight_versions.end());
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
  *this = std::move(part);
  samples = std::move(whole);
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
