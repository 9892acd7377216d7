#include "engine/sample_text.h"

#include <algorithm>

namespace tritonforge::engine {

SampleText::SampleText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, bool skip_special_tokens,
                       bool keep_stop)
    : decoder_(tokenizer, skip_special_tokens), stops_(std::move(stops)), keep_stop_(keep_stop) {
  for (const auto& stop : stops_) longest_stop_ = std::max(longest_stop_, stop.size());
}

bool SampleText::feed(int64_t token) { return matched_.empty() && append(decoder_.feed(token)); }

void SampleText::finish() {
  if (matched_.empty()) append(decoder_.finish());
}

bool SampleText::append(const std::string& part) {
  if (part.empty()) return false;
  const size_t from = text_.size() < longest_stop_ ? 0 : text_.size() - longest_stop_ + 1;
  text_ += part;
  size_t best_start = 0, best_end = std::string::npos;
  for (const auto& stop : stops_) {
    const size_t start = text_.find(stop, from);
    if (start == std::string::npos) continue;
    const size_t end = start + stop.size();
    if (end < best_end || (end == best_end && start < best_start)) {
      best_start = start;
      best_end = end;
      matched_ = stop;
    }
  }
  if (best_end == std::string::npos) return false;
  text_.resize(keep_stop_ ? best_end : best_start);
  return true;
}

std::string_view SampleText::settled() const {
  if (!matched_.empty()) return text_;
  size_t held = 0;
  for (const auto& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, text_.size()); length > held; --length) {
      if (text_.compare(text_.size() - length, length, stop, 0, length) == 0) held = length;
    }
  }
  return std::string_view(text_).substr(0, text_.size() - held);
}

}  // namespace tritonforge::engine
