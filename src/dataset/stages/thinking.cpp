#include "dataset/stages/thinking.h"

#include <algorithm>

#include "base/checksum.h"
#include "dataset/similarity/python_tokens.h"
#include "dataset/source_families.h"
#include "dataset/stages/kept_answers.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

std::string_view trim_lines(std::string_view text) {
  const size_t first = text.find_first_not_of('\n');
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of('\n') - first + 1);
}

std::vector<tokenizer::Message> question_to_teacher(const Row& row) {
  return {{.role = "system", .content = "You explain how an expert in GPU kernels arrives at a solution."},
          {.role = "user",
           .content = "Problem:\n```python\n" + row.problem + "\n```\nSolution:\n```python\n" + row.solution +
                      "\n```\nWrite the reasoning that leads from the problem to this solution, in the first person, "
                      "before the solution is known. No code, no headings."}};
}

class Thinking : public Stage {
 public:
  Thinking(const ThinkingOptions& options, const StageContext& context) : Stage("thinking"), options_(options) {
    if (options.from != Thought::kTeacher) return;
    kept_ = std::make_unique<KeptAnswers>(context.output / "thoughts.jsonl");
    ask_ = context.tools.teacher(options.url, options.model);
  }

  int threads() const override { return ask_ ? static_cast<int>(options_.at_once) : 0; }

  void work(Row& row) override {
    bool thinks = true;
    for (auto& [message, learned] : row.messages) {
      if (message.role != "assistant") continue;
      const ThoughtFound found = separate_thought(message);
      if (!found.problem.empty()) return row.drop(name(), found.problem);
      if (found.repaired) row.repairs.emplace_back("thought_without_opening");
      if (options_.from == Thought::kStrip) message.reasoning_content.clear();
      if (learned && message.reasoning_content.empty()) message.reasoning_content = thought_for(row);
      thinks = thinks && (!learned || !message.reasoning_content.empty());
    }
    if (options_.required && !thinks) row.drop(name(), "no thought");
  }

 private:
  std::string thought_for(Row& row) {
    if (row.problem.empty() || row.solution.empty()) return "";
    if (options_.from == Thought::kPlan) return plan_of(row.problem, row.solution);
    if (options_.from != Thought::kTeacher) return "";
    const std::string key = checksum(options_.model + "\n" + row.problem + "\n" + row.solution);
    if (const auto kept = kept_->find(key)) return kept->get<std::string>();
    const auto said = taken(ask_(question_to_teacher(row)), row, "the teacher gives no thought");
    tokenizer::Message answer{.role = "assistant", .content = said.value_or("")};
    // A teacher that thinks itself: what counts is what it says in the end.
    const std::string thought = separate_thought(answer).problem.empty() ? std::string(trim_lines(answer.content)) : "";
    if (!thought.empty()) kept_->put(key, thought);  // none may be said another time
    return thought;
  }

  ThinkingOptions options_;
  std::unique_ptr<KeptAnswers> kept_;
  StageTools::Ask ask_;
};

}  // namespace

ThoughtFound separate_thought(tokenizer::Message& answer) {
  const std::string_view text = answer.content;
  const size_t open = text.find(kOpen), close = text.find(kClose);
  if (open == std::string_view::npos && close == std::string_view::npos) return {};
  if (!answer.reasoning_content.empty()) return {"a thought beside the answer and one in it"};
  if (close == std::string_view::npos) return {"a thought that is not closed"};
  const bool opened = open < close;
  if (opened && text.substr(0, open).find_first_not_of(" \t\n") != std::string_view::npos)
    return {"a thought behind text"};
  const size_t begin = opened ? open + kOpen.size() : 0;
  const std::string_view rest = text.substr(close + kClose.size());
  if (text.substr(begin, close - begin).find(kOpen) != std::string_view::npos) return {"a thought within a thought"};
  if (rest.find(kOpen) != std::string_view::npos || rest.find(kClose) != std::string_view::npos)
    return {"more than one thought"};
  answer.reasoning_given = false;  // if only as "", it does not keep the content from being read
  auto [reasoning, content] = tokenizer::split_thought(answer);
  answer.reasoning_content = std::move(reasoning);
  answer.content = std::move(content);
  return {"", !opened};
}

std::string plan_of(const std::string& problem, const std::string& solution) {
  std::vector<std::string> kernels, tiles;
  const auto tokens = python_tokens(solution);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::string next(tokens[i + 1].text);
    const bool kernel = tokens[i].text == "def" && i >= 2 && tokens[i - 2].text == "jit";
    if (kernel) kernels.push_back(next);
    if (tokens[i].text == "arange" && i + 4 < tokens.size() && tokens[i + 4].kind == PythonToken::kName) {
      const std::string tile(tokens[i + 4].text);
      if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
    }
  }
  std::string plan = fmt::format("The module computes {}.", fmt::join(families_of_calls(problem), ", then "));
  if (kernels.size() == 1) plan += fmt::format(" One kernel, {}, does all of it", kernels[0]);
  else if (!kernels.empty()) plan += fmt::format(" {} kernels do it: {}", kernels.size(), fmt::join(kernels, ", "));
  if (!kernels.empty()) {
    plan += tiles.empty() ? "." : fmt::format("; each program works on tiles of {}.", fmt::join(tiles, " by "));
    plan +=
        " Loads and stores are masked where the sizes do not divide; the wrapper allocates the output and launches.";
  }
  return plan;
}

std::unique_ptr<Stage> make_thinking(const ThinkingOptions& options, const StageContext& context) {
  return std::make_unique<Thinking>(options, context);
}

}  // namespace tritonforge::dataset
