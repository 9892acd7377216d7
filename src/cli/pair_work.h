#pragma once
// What the commands that make pairs have in common (data generate, data capture): who judges, the conversation's texts,
// the file, the counts of what was refused.
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "base/filesystem.h"
#include "base/options.h"
#include "base/url.h"
#include "cli/own_evaluator.h"
#include "dataset/acceptance.h"
#include "net/http.h"
#include "rollout/prompts.h"

namespace tritonforge::cli {

struct Judging {
  std::string evaluator;
  int trials = 2;
  bool unverified = false;

  template <typename V>
  void describe(V& v) {
    v("evaluator", evaluator, in_form(base_url),
      "URL of a running evaluator (starts its own where empty); its key is TRITONFORGE_PEER_API_KEY of the "
      "environment");
    v("trials", trials, in(1, 64), "correctness trials of each evaluation");
    v("unverified", unverified, "writes without asking an evaluator (for work on templates; marked so)");
  }
};

// The evaluator that is named, or one of its own for as long as it lives.
class PairEvaluator {
 public:
  // Returns once the evaluator answers; throws where it does not.
  PairEvaluator(const Judging& judging, int workers);
  // Empty where pairs are not verified. To be called while this lives.
  dataset::EvaluatePair ask();

 private:
  const int trials_;
  std::string url_;
  std::unique_ptr<OwnEvaluator> own_;
  net::HttpClient client_;
};

dataset::ConversationTexts conversation_texts(PromptStyle prompt);

// JSON lines, under another name until they are complete. Throws kUnavailable where they cannot be written.
class PairFile {
 public:
  explicit PairFile(fs::path output);
  void write(const dataset::Pair& pair, bool messages);
  void finish();

 private:
  void check() const;
  fs::path output_, unfinished_;
  std::ofstream file_;
};

void print_counts(std::string_view title, const std::map<std::string, size_t>& counts, size_t most = SIZE_MAX);

}  // namespace tritonforge::cli
