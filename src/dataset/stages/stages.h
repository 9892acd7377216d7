#pragma once
// The stages and their options, in the order of the usual pipeline. Each maker's stage is in its own file.
#include "base/url.h"
#include "dataset/stages/stage.h"

namespace tritonforge::dataset {

struct CleanOptions {
  int64_t max_bytes = 1 << 20;
  template <typename V>
  void describe(V& v) {
    v("max_bytes", max_bytes, at_least(1), "longest text of a row; longer ones are dropped");
  }
};

enum class InductorText { kRewrite, kKeep };
constexpr std::array<std::string_view, 2> names_of(InductorText) { return {"rewrite", "keep"}; }

struct ConvertOptions {
  PromptStyle prompt = PromptStyle::kKernelBench;
  InductorText inductor = InductorText::kRewrite;
  int64_t max_turns = 3;
  bool learn_repairs_only = false;
  template <typename V>
  void describe(V& v) {
    v("prompt", prompt, "what the model is asked: as RL asks (rollout/prompts.h)");
    v("inductor", inductor,
      "a solution that TorchInductor printed, as KernelBook's are: rewrite: for the torch of today, as `data capture` "
      "writes them; keep: as it stands");
    v("max_turns", max_turns, in(1, 16), "answers of one conversation: the last refused attempts and the solution");
    v("learn_repairs_only", learn_repairs_only, "drops pairs that were never refused");
  }
};

enum class Thought { kGiven, kPlan, kTeacher, kStrip };
constexpr std::array<std::string_view, 4> names_of(Thought) { return {"given", "plan", "teacher", "strip"}; }

struct ThinkingOptions {
  Thought from = Thought::kGiven;
  bool required = false;
  std::string url, model;
  int64_t at_once = 8;
  template <typename V>
  void describe(V& v) {
    v("from", from,
      "given: what the answer holds; plan: made from problem and solution; teacher: a server; strip: none");
    v("required", required, "drops answers that have no thought afterwards");
    v("url", url, in_form(base_url),
      "teacher: base URL of a server with OpenAI's chat completions; the key is OPENAI_API_KEY");
    v("model", model, "teacher: the model's name there");
    v("at_once", at_once, in(1, 256), "teacher: requests at once");
  }
  void validate() const {
    if (from == Thought::kTeacher && (url.empty() || model.empty()))
      fail(ErrorKind::kUsage, "'from: teacher' needs 'url' and 'model'");
  }
};

struct LengthOptions {
  int64_t min = 100, max = 8192;
  template <typename V>
  void describe(V& v) {
    v("min", min, at_least(0), "fewest tokens");
    v("max", max, at_least(1), "most tokens");
  }
};

struct QualityOptions {
  std::vector<std::string> evaluators;
  int64_t trials = 2, at_once = 2;
  double timeout_s = 60;
  bool keep_unjudged = false;
  template <typename V>
  void describe(V& v) {
    v("evaluators", evaluators, in_form(base_url),
      "URLs of running evaluators, all of which are used (their key is TRITONFORGE_PEER_API_KEY of the environment); "
      "empty: one is started");
    v("trials", trials, in(1, 64), "correctness trials");
    v("at_once", at_once, in(1, 256), "evaluations at once, on each evaluator");
    v("timeout_s", timeout_s, above(0), at_most(3600), "seconds for each part of an evaluation");
    v("keep_unjudged", keep_unjudged, "keeps rows without problem and solution, of which no verdict can be had");
  }
};

struct DedupOptions {
  bool exact = true, normalised = true;
  double near = 0.8;
  template <typename V>
  void describe(V& v) {
    v("exact", exact, "drops a row whose text an earlier one has");
    v("normalised", normalised, "the same but for layout, comments and the names that the code binds");
    v("near", near, in(0, 1), "drops a row at least so similar to an earlier one (Jaccard, by MinHash); 0 = off");
  }
};

struct ContaminationOptions {
  std::vector<std::string> problems;
  double near = 0.8;
  template <typename V>
  void describe(V& v) {
    v("problems", problems, "evaluation problems that no row may hold: folders, .jsonl, .parquet or .py files");
    v("near", near, in(0, 1), "similarity of the modules from which on a row is one of them; 0 = exact ones only");
  }
  void validate() const {
    if (problems.empty()) fail(ErrorKind::kUsage, "'problems' names no evaluation problems");
  }
};

enum class SplitBy { kHash, kFamily };
constexpr std::array<std::string_view, 2> names_of(SplitBy) { return {"hash", "family"}; }

struct SplitOptions {
  SplitBy by = SplitBy::kHash;
  double holdout = 0.02;
  std::vector<std::string> families;
  template <typename V>
  void describe(V& v) {
    v("by", by,
      "hash: of the problem, so that all rows of one are on one side; family: of its combination of families");
    v("holdout", holdout, in(0, 1), "share that goes to the split 'holdout'");
    v("families", families, commas(), "families that go there besides");
  }
};

std::unique_ptr<Stage> make_clean(const CleanOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_convert(const ConvertOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_thinking(const ThinkingOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_tokens(const StageContext& context);
std::unique_ptr<Stage> make_length(const LengthOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_quality(const QualityOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_dedup(const DedupOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_contamination(const ContaminationOptions& options, const StageContext& context);
std::unique_ptr<Stage> make_split(const SplitOptions& options, const StageContext& context);

}  // namespace tritonforge::dataset
