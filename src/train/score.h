#pragma once
// Per-token log-probabilities of given token ids, from the trainer's own forward pass: JSON lines in, JSON lines out.
#include <iosfwd>
#include <string>

#include "base/options.h"

namespace tritonforge::train {

struct ScoreOptions {
  std::string model;  // Hugging Face folder or .gguf
  std::string dtype = "float32", device = "cpu";
  bool logits_last = false;

  template <typename V>
  void describe(V& v) {
    v("model", model, required(), "Hugging Face folder or .gguf file");
    v("dtype", dtype, one_of({"float32", "bfloat16", "float16"}), "of weights and arithmetic");
    v("device", device, "cpu, cuda or cuda:N");
    v("logits_last", logits_last, R"(adds "logits_last": the logits after the last token of each line)");
  }
};

// Each line {"ids": [..]} gives {"log_probs": [..]}: log p(ids[i] | ids[..i-1]) for i = 1..n-1, so n - 1 numbers; order
// kept. Lines are packed into batches. Throws kUsage naming the line for bad JSON, no ids, or an id outside the
// vocabulary.
void score_lines(const ScoreOptions& options, std::istream& in, std::ostream& out);

}  // namespace tritonforge::train
