#include "dataset/capture.h"

#include <fmt/ranges.h>

#include <fstream>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "dataset/build/parallel.h"

namespace tritonforge::dataset {
namespace {

constexpr const char* kStyle = "captured";

Pair module_of(Pair pair) {
  pair.id = fmt::format("{}_{}", kStyle, pair.id);
  pair.combo = fmt::format("{}", fmt::join(pair.families, "+"));
  pair.style = kStyle;
  pair.verified = false;
  pair.refinements.clear();
  pair.messages.clear();
  return pair;
}

// What has become of one module.
struct Outcome {
  bool captured = false;
  std::string reason, detail;  // of a refusal
  std::optional<Pair> pair;
};

Outcome outcome_of(Pair module, const CaptureSolution& capture, const EvaluatePair& evaluate,
                   const ConversationTexts& texts) {
  Outcome outcome;
  const auto found = capture(module.problem);
  if (!found.ok()) {
    if (found.error().kind() != ErrorKind::kUnsupported) throw found.error();
    outcome.detail = fmt::format("{}: {}", module.id, found.error().what());
    outcome.reason = reason_of(std::string_view(found.error().what()));
    return outcome;
  }
  outcome.captured = true;
  module.problem = found->problem;
  module.solution = found->solution;
  if (evaluate) {
    const Verdict verdict = evaluate(module.problem, module.solution).value();
    if (!is_accepted(verdict)) {
      outcome.detail = refusal_of(module.id, verdict);
      outcome.reason = reason_of(verdict);
      return outcome;
    }
    module.verified = true;
  }
  module.messages = conversation_of(module, texts);
  outcome.pair = std::move(module);
  return outcome;
}

// Whether its first line is one of `data generate`.
bool is_pairs_file(const fs::path& path) {
  if (path.extension() != ".jsonl") return false;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const Json first = parse_json_or_discard(line);
  return first.is_object() && first.contains("problem") && first.contains("solution") && first.contains("split");
}

}  // namespace

CaptureReport capture_pairs(std::vector<Pair> modules, int workers, const CaptureSolution& capture,
                            const EvaluatePair& evaluate, const ConversationTexts& texts,
                            const std::function<void(const Pair*)>& on_each) {
  const auto start = Clock::now();
  CaptureReport report{.problems = static_cast<int64_t>(modules.size())};
  std::mutex mutex;
  std::map<size_t, Outcome> done;  // those that an earlier one keeps waiting
  size_t next = 0;
  const auto take = [&](Outcome outcome) {
    report.captured += outcome.captured;
    on_each(outcome.pair ? &*outcome.pair : nullptr);
    if (outcome.pair) {
      ++report.written;
    } else {
      ++report.refused_by[outcome.reason];
      report.refused.push_back(std::move(outcome.detail));
    }
  };
  for_each(modules.size(), workers, [&](size_t i) {
    Outcome outcome = outcome_of(std::move(modules[i]), capture, evaluate, texts);
    const std::lock_guard lock(mutex);
    done.emplace(i, std::move(outcome));
    for (; !done.empty() && done.begin()->first == next; ++next) take(std::move(done.extract(done.begin()).mapped()));
  });
  report.seconds = seconds_since(start);
  return report;
}

std::vector<Pair> read_modules(const fs::path& path) {
  std::vector<Pair> modules;
  if (is_pairs_file(path)) {
    for (auto& pair : read_pairs(path)) modules.push_back(module_of(std::move(pair)));
    return modules;
  }
  for (auto& problem : read_problems(path)) {
    Pair pair;
    pair.id = std::move(problem.id);
    pair.families = std::move(problem.families);
    pair.split = "train";
    pair.problem = std::move(problem.source);
    modules.push_back(module_of(std::move(pair)));
  }
  return modules;
}

}  // namespace tritonforge::dataset
