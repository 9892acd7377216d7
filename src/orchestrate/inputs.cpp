#include "orchestrate/inputs.h"

#include "base/hub.h"
#include "base/rng.h"
#include "dataset/build/card.h"

namespace tritonforge::orchestrate {
namespace {

std::vector<Problem> problems_of(const char* key, const std::string& path, const std::vector<int64_t>& levels,
                                 const std::vector<std::string>& ids) {
  if (!fs::exists(resolve_path(path)))
    fail(ErrorKind::kNotFound, "{}: no such file or folder: {}{}", key, path, pull_hint(path));
  auto problems = dataset::select_problems(dataset::read_problems(resolve_path(path)), {levels.begin(), levels.end()},
                                           ids);
  if (problems.empty()) fail(ErrorKind::kUsage, "{}: nothing is left of {} after the level filter", key, path);
  return problems;
}

// Not of the recipe's seed: rows of different runs can be compared.
std::vector<Problem> limited(std::vector<Problem> problems, int64_t limit, uint64_t seed) {
  if (limit > 0 && limit < static_cast<int64_t>(problems.size())) {
    Rng(seed).shuffle(problems);
    problems.resize(static_cast<size_t>(limit));
  }
  return problems;
}

}  // namespace

std::vector<dataset::Pair> training_pairs(const RecipeConfig& config) {
  const fs::path file = resolve_path(config.data.pairs);
  if (!fs::is_regular_file(file))
    fail(ErrorKind::kNotFound, "data.pairs: no such file: {}{}", config.data.pairs, pull_hint(config.data.pairs));
  auto pairs = dataset::read_pairs(file);
  std::erase_if(pairs, [](const dataset::Pair& pair) { return pair.split != "train"; });
  if (pairs.empty()) fail(ErrorKind::kUsage, "data.pairs: {} holds no pair of the split 'train'", config.data.pairs);
  return pairs;
}

Conversations conversations(const RecipeConfig& config) {
  const std::string& given = config.data.conversations;
  const fs::path path = resolve_path(given);
  if (fs::is_regular_file(path.string() + ".tokens")) return {path, /*packed=*/true};
  if (!fs::exists(path))
    fail(ErrorKind::kNotFound, "data.conversations: no such file or folder: {}{}", given, pull_hint(given));
  const auto written = dataset::outputs_in_card(path);
  const auto holds = [&](const char* file) {  // what the card does not list is of another build
    return (!written || written->contains(file)) && fs::is_regular_file(path / file);
  };
  if (holds("packed/train.tokens")) return {path / "packed" / "train", /*packed=*/true};
  if (!written) return {path};
  for (const char* file : {"jsonl/train.jsonl", "parquet/train.parquet"}) {
    if (holds(file)) return {path / file};
  }
  fail(ErrorKind::kUsage,
       "data.conversations: {} holds no packed/train, jsonl/train.jsonl or parquet/train.parquet; its build wrote {}",
       given, fmt::join(*written, ", "));
}

std::vector<Problem> rl_problems(const RecipeConfig& config) {
  return problems_of("rl.problems", config.rl.problems, config.rl.levels, {});
}

std::vector<Problem> validation_problems(const RecipeConfig& config) {
  const auto& validation = config.rl.validation;
  return limited(problems_of("rl.validation.problems", validation.problems, {}, {}), validation.limit,
                 Rng::derive(20261122, "validation problems"));
}

std::vector<Problem> bench_problems(const RecipeConfig& config) {
  const auto& bench = config.bench;
  return limited(problems_of("bench.problems", bench.problems, bench.levels, bench.problem_ids), bench.limit,
                 Rng::derive(20261121, "bench problems"));
}

}  // namespace tritonforge::orchestrate
