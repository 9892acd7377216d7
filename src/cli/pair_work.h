#pragma once
// What the commands that make pairs have in common (data generate, data capture): who judges, the conversation's texts,
// the file, the counts of what was refused.
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
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

// JSON lines, under another name until they are complete; each is in the file once it is written. Throws kUnavailable
// where they cannot be written.
class PairFile {
 public:
  explicit PairFile(fs::path output);
  void open();  // what another attempt left under that name is lost
  void write(const dataset::Pair& pair, bool messages);
  void finish();
  // Says where the pairs so far are; nothing is written from here on, and no line is cut.
  void tell_stopped(int signal);

 private:
  void check() const;
  std::string kept() const;
  fs::path output_, unfinished_;
  std::mutex mutex_;  // of what follows
  std::ofstream file_;
  int64_t written_ = 0;
  bool finished_ = false;
};

void print_counts(std::string_view title, const std::map<std::string, size_t>& counts, size_t most = SIZE_MAX);

}  // namespace tritonforge::cli
