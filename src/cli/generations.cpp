#include "cli/generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <regex>

#include "base/checksum.h"
#include "base/log.h"
#include "base/process.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/own_evaluator.h"
#include "cli/pair_work.h"
#include "dataset/stages/kept_answers.h"
#include "evaluate/evaluator.h"
#include "orchestrate/bench_results.h"
#include "orchestrate/inputs.h"
#include "orchestrate/preflight.h"
#include "orchestrate/stages.h"
#include "tokenizer/unicode.h"

namespace tritonforge::cli {
namespace {

using Key = std::pair<int, int>;                            // level and number, as KernelBench names a problem
using Kernels = std::map<Key, std::map<size_t, fs::path>>;  // of each its samples

constexpr const char* kForm = "level_LEVEL_problem_NUMBER_sample_NUMBER_kernel.py";

Kernels find_kernels(const fs::path& folder) {
  static const std::regex form(R"(level_(\d{1,4})_problem_(\d{1,6})_sample_(\d{1,6})_kernel\.py)");
  if (!fs::is_directory(folder)) fail(ErrorKind::kNotFound, "--generations: no such folder: {}", folder.string());
  Kernels kernels;
  std::vector<std::string> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::smatch part;
    if (std::regex_match(name, part, form)) {
      auto& samples = kernels[{std::stoi(part[1]), std::stoi(part[2])}];
      const auto [there, fresh] = samples.try_emplace(std::stoul(part[3]), entry.path());
      if (!fresh)
        fail(ErrorKind::kUsage, "--generations {}: {} and {} are the same sample; one of them must go", folder.string(),
             name, there->second.filename().string());
    } else if (lowered(entry.path().extension().string()) == ".py") {
      others.push_back(name);
    }
  }
  if (kernels.empty()) fail(ErrorKind::kUsage, "--generations {}: there is no {}", folder.string(), kForm);
  if (!others.empty()) {
    std::ranges::sort(others);
    log::warn("--generations {}: not judged, for their names are not {}: {}", folder.string(), kForm, first_of(others));
  }
  return kernels;
}

Trajectory not_judged(const Problem& problem, Fault fault, const std::string& why) {
  Trajectory sample;
  sample.problem_id = problem.id;
  Turn& turn = sample.turns.emplace_back();  // kFailed: in no rate
  turn.verdict.fault = fault;
  turn.verdict.diagnostics = why;
  return sample;
}

Trajectory judge(evaluate::Evaluator& evaluator, const orchestrate::RecipeConfig& config, const Problem& problem,
                 const fs::path& file, dataset::KeptAnswers& kept) {
  evaluate::EvaluationRequest request;
  static_cast<EvaluationOptions&>(request) = config.evaluator.request;
  request.mode = config.evaluator.mode;
  request.measure_performance = config.evaluator.on_gpu();
  request.seed = static_cast<uint64_t>(config.seed);
  request.problem_id = problem.id;
  request.problem_source = problem.source;
  request.candidate = read_source(file);
  const Json asked = {to_json(request), request.seed, config.evaluator.device, checksum(request.problem_source),
                      checksum(request.candidate)};
  const std::string key = checksum(asked.dump());
  Verdict verdict;
  if (const auto answer = kept.find(key)) {
    verdict = verdict_from_json(*answer);
  } else {
    try {
      verdict = evaluator.evaluate(request);
    } catch (const Error& error) {  // no verdict says nothing of the kernel
      return not_judged(problem, Fault::kEvaluatorFailed, error.what());
    }
    if (verdict.fault == Fault::kProblemError) return not_judged(problem, verdict.fault, verdict.diagnostics);
    kept.put(key, to_json(verdict));
  }
  Trajectory sample;
  sample.problem_id = problem.id;
  Turn& turn = sample.turns.emplace_back();
  turn.text = turn.code = tokenizer::unicode::replace_invalid_utf8(request.candidate);  // judged is what the file has
  turn.verdict = std::move(verdict);
  turn.status = TurnStatus::kCompleted;
  return sample;
}

// Samples are counted from 0 to the last that has a file.
void warn_of_missing(const Kernels& kernels, const orchestrate::BenchResults& results, const fs::path& folder) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < results.problems.size(); ++i) {
    const Problem& problem = results.problems[i];
    const auto& files = kernels.at({problem.level, problem.problem_id});
    for (size_t sample = 0; sample < results.samples[i].size(); ++sample) {
      if (!files.contains(sample))
        missing.push_back(fmt::format("level_{}_problem_{}_sample_{}", problem.level, problem.problem_id, sample));
    }
  }
  if (!missing.empty())
    log::warn("--generations {}: before a problem's last sample, these have no file and so no verdict: {}",
              folder.string(), first_of(missing));
}

// Problems that have a kernel, and a place for each of their samples.
orchestrate::BenchResults results_for(const orchestrate::RecipeConfig& config, const Kernels& kernels,
                                      const fs::path& folder) {
  orchestrate::BenchResults results;
  results.stage = "base";
  results.label = (folder / "").parent_path().filename().string();
  results.model = folder.string();
  results.budgets = {1};
  results.ks = config.bench.pass_at;
  results.seed = config.seed;
  results.request = config.rollout_request(config.bench.sampling, 1);
  for (const Problem& problem : orchestrate::bench_problems(config)) {
    const auto found = kernels.find({problem.level, problem.problem_id});
    if (found == kernels.end()) continue;
    const size_t samples = found->second.rbegin()->first + 1;
    results.problems.push_back(problem);
    results.samples.emplace_back(samples, not_judged(problem, Fault::kNoCode, "there is no file of this sample"));
    results.samples_per_problem = std::max(results.samples_per_problem, static_cast<int64_t>(samples));
  }
  if (results.problems.empty())
    fail(ErrorKind::kUsage, "--generations {}: none of its kernels is for one of the problems", folder.string());
  return results;
}

}  // namespace

void judge_generations(const orchestrate::RecipeConfig& config, const fs::path& folder,
                       const orchestrate::RunOptions& options) {
  const Kernels kernels = find_kernels(folder);
  orchestrate::BenchResults results = results_for(config, kernels, folder);
  warn_of_missing(kernels, results, folder);
  orchestrate::warn_of_problems(config);
  const fs::path to = options.output.empty() ? folder / "results" : options.output;
  const fs::path verdicts = to / "verdicts.jsonl";
  make_folder(to);  // before anything is judged
  if (!options.resume) fs::remove(verdicts);
  dataset::KeptAnswers kept(verdicts);

  struct Job {
    const Problem* problem;
    fs::path file;
    Trajectory* place;
  };
  std::vector<Job> jobs;
  for (size_t i = 0; i < results.problems.size(); ++i) {
    const Problem& problem = results.problems[i];
    for (const auto& [sample, file] : kernels.at({problem.level, problem.problem_id}))
      jobs.push_back({&problem, file, &results.samples[i][sample]});
  }
  SignalWaiter signals;
  choose_gpus(config.evaluator);
  evaluate::Evaluator evaluator(config.evaluator);
  Progress progress("kernels", static_cast<int64_t>(jobs.size()));
  std::atomic<size_t> next = 0;
  std::mutex showing;
  int64_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      *jobs[i].place = judge(evaluator, config, *jobs[i].problem, jobs[i].file, kept);
      const std::lock_guard lock(showing);
      progress.advance_to(++done);
    }
  };
  std::vector<std::future<void>> workers;
  for (int i = 0; i < config.evaluator.workers; ++i) workers.push_back(std::async(std::launch::async, work));
  // The first signal lets the kernels under way have their verdicts, which are kept; the next one does not.
  const auto under_way = [](const std::future<void>& worker) {
    return worker.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  };
  int signal = 0;
  while (std::ranges::any_of(workers, under_way)) {
    const int number = signals.wait(Deadline::after(0.1));
    if (number == 0) continue;
    if (signal != 0) std::_Exit(128 + number);
    signal = number;
    next = jobs.size();
    fmt::print(stderr, "\nstopping: the kernels under way are judged; once more to end at once\n");
  }
  for (auto& worker : workers) worker.get();
  progress.finish();
  if (signal != 0) {
    throw StoppedBySignal(signal, fmt::format("stopped by {}; {} of {} kernels are judged, the same command with "
                                              "--resume goes on",
                                              ::strsignal(signal), done, jobs.size()));
  }

  write_results(results, to);
  const auto rows = bench_rows(results);  // throws where no kernel has a verdict
  if (options.json) {
    fmt::print("{}", read_file(to / "figures.json"));
  } else {
    size_t files = 0;
    for (const auto& [problem, samples] : kernels) files += samples.size();
    const std::string others = files > jobs.size() ? fmt::format(", {} of no problem here", files - jobs.size()) : "";
    fmt::print("{}\n{} kernels of {} problems{}; results {}\n", orchestrate::format_table(rows), jobs.size(),
               results.problems.size(), others, to.string());
  }
}

}  // namespace tritonforge::cli
