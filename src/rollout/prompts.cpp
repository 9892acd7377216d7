#include "rollout/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "rollout/prompt_languages.h"
#include "rollout/text.h"

namespace tritonforge::rollout {
namespace {

constexpr std::string_view kTask =
    "You are given a PyTorch module named Model. Write a module named ModelNew that takes the same constructor "
    "arguments and inputs and returns the same outputs, with the work done by {} of your own. You may "
    "replace one operator or several, fuse them, or change the algorithm, as long as the results stay equal within "
    "normal floating-point error.{}\n\n"
    "Here is an example. This module adds two tensors:\n\n";

constexpr std::string_view kExampleTorch = R"py(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return a + b


def get_inputs():
    return [torch.randn(1, 128), torch.randn(1, 128)]


def get_init_inputs():
    return []
)py";

constexpr std::string_view kInstruction =
    "Now write ModelNew for the module above. Give real, complete code that compiles and runs, imports included, in "
    "one "
    "```python block. Write no tests and no other text.";

std::string figure(double value) { return fmt::format("{:.4g}", value); }

const Trial* worst_trial(const Verdict& verdict) {
  const Trial* worst = nullptr;
  for (const Trial& trial : verdict.trials) {
    if (!trial.passed && (worst == nullptr || trial.max_rel_error > worst->max_rel_error)) worst = &trial;
  }
  return worst;
}

const Flag* first_cheat(const Verdict& verdict) {
  const auto found = std::find_if(verdict.flags.begin(), verdict.flags.end(), [](const Flag& f) { return f.cheat(); });
  return found == verdict.flags.end() ? nullptr : &*found;
}

std::string failure_text(const Verdict& verdict) {
  if (!verdict.diagnostics.empty()) return verdict.diagnostics;
  const Trial* worst = worst_trial(verdict);
  return worst == nullptr ? std::string() : worst->mismatch;
}

// What is measured, else what is claimed: shown to the model, and no reward.
double shown_speedup(const Verdict& verdict) { return verdict.speedup > 0 ? verdict.speedup : verdict.claimed_speedup; }

std::string minimal_feedback(const Verdict& verdict) {
  if (const Flag* cheat = first_cheat(verdict)) {
    return fmt::format("rejected: {}", name_of(cheat->kind)) +
           (cheat->evidence.empty() ? "" : ": " + first_lines(cheat->evidence, 120));
  }
  if (verdict.correct) {
    return verdict.stage == Stage::kTimed ? fmt::format("correct, {:.2f}x", shown_speedup(verdict)) : "correct";
  }
  const std::string kind(verdict.fault == Fault::kNone ? "failed" : name_of(verdict.fault));
  const std::string text = first_lines(failure_text(verdict), kMaxMinimalFeedbackBytes);
  return text.empty() ? kind : kind + ": " + text;
}

std::string_view outcome_of(const Verdict& verdict) {
  if (verdict.cheated()) return "it was rejected";
  if (verdict.correct) return "it is correct";
  if (verdict.stage >= Stage::kLaunched && verdict.fault == Fault::kMismatch) return "it runs, but its output is wrong";
  if (verdict.fault == Fault::kNotRun) return "it compiles; there is no device here to run it on";
  if (verdict.compiled) return "it compiles, but does not run to its end";
  if (verdict.stage >= Stage::kImported) return "it does not compile";
  if (verdict.stage >= Stage::kParsed) return "it cannot be imported";
  if (verdict.stage >= Stage::kExtracted) return "it is not valid Python";
  return "no complete code block was found in the answer";
}

std::string_view next_task_of(const Verdict& verdict) {
  if (verdict.cheated()) return "Compute the result with kernels of your own that really run on the inputs given";
  if (verdict.correct) return "Keep it correct and make it faster";
  if (verdict.compiled) return "Correct it, and then make it fast";
  return "Mend this error first";
}

std::string kernelbench_feedback(const Verdict& verdict) {
  std::string text = fmt::format("Your last ModelNew was evaluated: {} (last stage passed: {}).\n", outcome_of(verdict),
                                 name_of(verdict.stage));
  for (const Flag& flag : verdict.flags) {
    text += fmt::format("{}: {}{}\n", flag.cheat() ? "Rejected for" : "Warning", name_of(flag.kind),
                        flag.evidence.empty() ? "" : " (" + first_lines(flag.evidence, 300) + ")");
  }
  if (!verdict.correct) {
    const std::string failure = clip_middle(verdict.diagnostics, 3000);
    const std::string kind(verdict.fault == Fault::kNone ? "failed" : name_of(verdict.fault));
    text += failure.empty() ? fmt::format("Error: {}\n", kind)
                            : fmt::format("Error ({}):\n```\n{}\n```\n", kind, failure);
    if (const Trial* worst = worst_trial(verdict)) {
      const auto passed = std::count_if(verdict.trials.begin(), verdict.trials.end(),
                                        [](const Trial& t) { return t.passed; });
      text += fmt::format("Trials passed: {} of {}. Worst: {} (largest absolute error {}, {} times the tolerance).\n",
                          passed, verdict.trials.size(), clip_text(worst->mismatch, 400), figure(worst->max_abs_error),
                          figure(worst->max_rel_error));
    }
    for (const auto& [target, result] : verdict.compile_targets) {
      if (result != "ok") text += fmt::format("Compiling for {}: {}\n", target, first_lines(result, 300));
    }
  }
  if (verdict.stage == Stage::kTimed) {
    text += fmt::format(
        "Time: {:.4g} ms (median); PyTorch: {:.4g} ms; speedup {:.3g}x (95% interval {:.3g} to {:.3g}).\n",
        verdict.runtime.median, verdict.ref_runtime.median, shown_speedup(verdict), verdict.speedup_low,
        verdict.speedup_high);
    if (verdict.profile) text += describe(*verdict.profile);
  }
  text += describe(verdict.counters);
  return text + fmt::format("\n{}. Answer with the complete new ModelNew in one ```python block and no other text.",
                            next_task_of(verdict));
}

std::string fenced(std::string_view code) {
  return fmt::format("```python\n{}{}```", code, code.empty() || code.back() != '\n' ? "\n" : "");
}

}  // namespace

std::vector<tokenizer::Message> first_messages(PromptStyle style, const Problem& problem, Backend backend) {
  if (style == PromptStyle::kMinimal) return {{.role = "user", .content = problem.source}};
  const PromptLanguage& language = prompt_language(backend);
  std::string user = fmt::format(kTask, language.kernels, language.rules);
  user += fenced(kExampleTorch) + fmt::format("\n\nand this one does the same with {}:\n\n", language.kernel) +
          fenced(language.example);
  user += "\n\nThis is the module to replace:\n\n" + fenced(problem.source) + "\n\n" + std::string(kInstruction);
  return {{.role = "system", .content = std::string(language.role)}, {.role = "user", .content = std::move(user)}};
}

std::vector<tokenizer::Message> opening_messages(const GroupSpec& group) {
  if (!group.messages.empty()) return group.messages;
  Problem problem;
  problem.id = group.problem_id;
  problem.source = group.problem_source;
  return first_messages(group.options.prompt, problem, group.options.evaluate.backend);
}

tokenizer::Message feedback_message(PromptStyle style, const Verdict& verdict) {
  const bool minimal = style == PromptStyle::kMinimal;
  const std::string text = sanitise(minimal ? minimal_feedback(verdict) : kernelbench_feedback(verdict));
  return {.role = "user",
          .content = minimal ? clip_text(text, kMaxMinimalFeedbackBytes) : clip_middle(text, kMaxFeedbackBytes)};
}

tokenizer::Message answer_message(std::string_view code) { return {.role = "assistant", .content = fenced(code)}; }

}  // namespace tritonforge::rollout
