// A pair or a trajectory becomes a conversation: what RL would have asked, the refused attempts with what was said to
// them, and the solution, which alone is learned.
#include <algorithm>
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
