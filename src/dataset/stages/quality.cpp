// Verdicts by the evaluators: a row whose solution is not correct is dropped, with how far it came.
#include "base/checksum.h"
#include "dataset/acceptance.h"
#include "dataset/stages/kept_answers.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

class Quality : public Stage {
 public:
  Quality(const QualityOptions& options, const StageContext& context)
      : Stage("quality"), options_(options), tools_(context.tools), kept_(context.output / "verdicts.jsonl") {
    judge_ = tools_.judge(options.evaluators, options.trials, options.timeout_s, options.at_once);
  }

  int threads() const override {
    return static_cast<int>(options_.at_once) * static_cast<int>(std::max<size_t>(1, options_.evaluators.size()));
  }

  void work(Row& row) override {
    const std::string candidate = row.solution.empty() ? solution_in(row) : row.solution;
    if (row.problem.empty() || candidate.empty()) {
      if (!options_.keep_unjudged) row.drop(name(), "no problem and solution to judge");
      return;
    }
    const std::string key = checksum(fmt::format("{}\n{}\n{}", options_.trials, checksum(row.problem), candidate));
    if (const auto kept = kept_.find(key)) {
      row.verdict = verdict_from_json(*kept);
    } else {
      row.verdict = taken(judge_(row.problem, candidate), row, "the evaluator gives no verdict");
      if (!row.verdict) return;
      kept_.put(key, to_json(*row.verdict));
    }
    if (!is_accepted(*row.verdict)) row.drop(name(), reason_of(*row.verdict), first_line(*row.verdict));
  }

  Json report() const override { return {{"verdicts_of_earlier_builds", kept_.found()}}; }

 private:
  std::string solution_in(const Row& row) const {
    return row.learns() ? tools_.code_of(row.messages.back().message.content) : "";
  }
  static std::string reason_of(const Verdict& verdict) {
    for (const Flag& flag : verdict.flags) {
      if (flag.cheat()) return std::string(name_of(flag.kind));
    }
    return verdict.fault == Fault::kNone ? "not correct" : std::string(name_of(verdict.fault));
  }
  static std::string first_line(const Verdict& verdict) {
    return verdict.diagnostics.substr(0, std::min<size_t>(verdict.diagnostics.find('\n'), 200));
  }

  QualityOptions options_;
  StageTools tools_;
  KeptAnswers kept_;
  StageTools::Judge judge_;
};

}  // namespace

std::unique_ptr<Stage> make_quality(const QualityOptions& options, const StageContext& context) {
  return std::make_unique<Quality>(options, context);
}

}  // namespace tritonforge::dataset
