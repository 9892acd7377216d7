// A pair or a trajectory becomes a conversation: what RL would have asked, the refused attempts with what was said to
// them, and the solution, which alone is learned.
#include <algorithm>

#include "dataset/acceptance.h"
#include "dataset/source_families.h"
#include "dataset/sources/kernelbook.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

class Convert : public Stage {
 public:
  Convert(const ConvertOptions& options, const StageTools& tools)
      : Stage("convert"), options_(options), tools_(tools) {}

  void work(Row& row) override {
    if (!row.entry_point.empty()) take_kernelbook_form(row);
    if (!row.dropped && options_.inductor == InductorText::kRewrite && is_inductors(row)) rewrite(row);
    if (row.families.empty() && !row.problem.empty()) row.families = families_of_calls(row.problem);
    if (row.dropped || !row.messages.empty()) return;  // a conversation already
    if (options_.learn_repairs_only && row.attempts.empty()) return row.drop(name(), "was never refused");
    for (const tokenizer::Message& message : opening_of(row)) row.messages.push_back({message, /*learned=*/false});
    const size_t most = static_cast<size_t>(options_.max_turns - 1);
    const size_t first = row.attempts.size() - std::min(row.attempts.size(), most);
    for (size_t i = first; i < row.attempts.size(); ++i) {
      const Attempt& attempt = row.attempts[i];
      row.messages.push_back({said(attempt.text, attempt.code), /*learned=*/false});
      row.messages.push_back({{.role = "user", .content = attempt.feedback}, /*learned=*/false});
    }
    if (row.solution.empty()) return;  // a prompt
    tokenizer::Message& answer = row.messages.emplace_back(said(row.answer, row.solution), /*learned=*/true).message;
    answer.reasoning_content = row.reasoning;
  }

 private:
  static bool is_inductors(const Row& row) {
    const auto has = [&](const char* name) { return row.solution.find(name) != std::string::npos; };
    return row.answer.empty() && (has("torch._inductor") || has("_empty_strided_cuda"));
  }

  // Where it cannot be, the row stays as it is, and what the evaluator makes of it is for the stage `quality`.
  void rewrite(Row& row) const {
    auto rewritten = tools_.rewrite(row.solution);
    if (rewritten.ok()) {
      row.solution = std::move(*rewritten);
      row.repairs.emplace_back("inductor_rewritten");
    } else if (rewritten.error().kind() == ErrorKind::kUnsupported) {
      row.repairs.push_back("inductor_kept: " + reason_of(std::string_view(rewritten.error().what())));
    } else {
      throw rewritten.error();
    }
  }

  std::vector<tokenizer::Message> opening_of(const Row& row) const {
    if (!row.opening.empty()) return row.opening;
    Problem problem;
    problem.id = row.uuid;
    problem.source = row.problem;
    return tools_.first_messages(options_.prompt, problem);
  }
  tokenizer::Message said(const std::string& text, const std::string& code) const {
    return text.empty() ? tools_.answer_message(code) : tokenizer::Message{.role = "assistant", .content = text};
  }

  ConvertOptions options_;
  StageTools tools_;
};

}  // namespace

std::unique_ptr<Stage> make_convert(const ConvertOptions& options, const StageContext& context) {
  return std::make_unique<Convert>(options, context.tools);
}

}  // namespace tritonforge::dataset
