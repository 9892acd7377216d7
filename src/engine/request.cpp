#include "engine/request.h"

#include <cmath>

namespace tritonforge::engine {

void SamplingParams::validate(int64_t vocab_size) const {
  const auto bad = [](const char* field, const char* rule, const auto& value) {
    fail(ErrorKind::kUsage, "sampling_params.{} must be {}, not {}", field, rule, value);
  };
  if (!(temperature >= 0) || !std::isfinite(temperature)) bad("temperature", "0 or a positive number", temperature);
  if (temperature > 0 && temperature < 1e-4) bad("temperature", "0 (greedy) or at least 0.0001", temperature);
  if (!(top_p > 0 && top_p <= 1)) bad("top_p", "in (0, 1]", top_p);
  if (top_k != -1 && top_k < 1) bad("top_k", "-1 (all) or at least 1", top_k);
  if (!(min_p >= 0 && min_p <= 1)) bad("min_p", "in [0, 1]", min_p);
  if (max_new_tokens < 0) bad("max_new_tokens", "0 or more", max_new_tokens);
  if (n < 1 || n > 1024) bad("n", "in [1, 1024]", n);
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
