#include "cli/self_check.h"

#include <fmt/format.h>

#include <atomic>
#include <future>
#include <mutex>

#include "evaluate/evaluator.h"

namespace tritonforge::cli {
namespace {

Json to_json(const Problem& problem, const evaluate::ProblemCheck& check) {
  Json row = check.admission ? evaluate::to_json(*check.admission) : Json::object();
  row["id"] = problem.id;
  row["level"] = problem.level;
  row["admitted"] = check.admitted;
  if (!check.admitted) row["reason"] = check.reason;
  row["reduced"] = reduced_sizes(check.notes);
  row["wall_s"] = check.wall_s;
  return row;
}

// The first line; of a syntax error that says where, and the last one what.
std::string in_a_line(const std::string& reason) {
  const std::string first = reason.substr(0, reason.find('\n'));
  const std::string last = reason.substr(reason.rfind('\n') + 1);
  return first.find("  File \"") == std::string::npos || last == reason ? first : first + ": " + last;
}

std::string line(const Problem& problem, const evaluate::ProblemCheck& check) {
  std::string text = fmt::format("{}  {}", check.admitted ? "admitted" : "barred  ", problem.id);
  if (!check.admitted) return text + ": " + in_a_line(check.reason);
  if (!check.admission) return text;
  const evaluate::Admission& how = *check.admission;
  if (how.tolerance != 1) text += fmt::format("  tolerance x {:.3g}", how.tolerance);
  if (how.draw != evaluate::Draw::kAsGiven) text += fmt::format("  drawn {}", name_of(how.draw));
  return text;
}

}  // namespace

void self_check(const std::vector<Problem>& problems, const evaluate::EvaluatorOptions& options, bool json) {
  evaluate::Evaluator evaluator(options);
  std::vector<evaluate::ProblemCheck> checks(problems.size());
  std::atomic<size_t> next = 0;
  std::mutex printing;
  const auto work = [&] {
    for (size_t i = next++; i < problems.size(); i = next++) {
      checks[i] = evaluator.check(problems[i].source);
      const std::lock_guard lock(printing);
      if (!json) fmt::print("{}\n", line(problems[i], checks[i]));
      std::fflush(stdout);
    }
  };
  std::vector<std::future<void>> workers;
  for (int i = 0; i < options.workers; ++i) workers.push_back(std::async(std::launch::async, work));
  for (auto& worker : workers) worker.get();  // with what ended it: a fault of ours is no finding
  Json rows = Json::array();
  size_t admitted = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    rows.push_back(to_json(problems[i], checks[i]));
    admitted += checks[i].admitted;
  }
  const size_t barred = problems.size() - admitted;
  if (json) {
    fmt::print(
        "{}\n",
        Json{{"problems", problems.size()}, {"admitted", admitted}, {"barred", barred}, {"results", rows}}.dump(2));
  } else {
    fmt::print("{} problems: {} admitted, {} barred\n", problems.size(), admitted, barred);
  }
}

}  // namespace tritonforge::cli
