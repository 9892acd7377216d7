#include <algorithm>

#include "base/nearest.h"
#include "dataset/pair.h"
#include "dataset/problem.h"
#include "dataset/sources/chat.h"
#include "dataset/sources/kernelbook.h"
#include "dataset/sources/source.h"
#include "dataset/sources/trajectories.h"

namespace tritonforge::dataset {
namespace {

struct ProblemOptions {
  std::string path;
  template <typename V>
  void describe(V& v) {
    v("path", path, required(), "KernelBench or the original's RL prompts: folder, .jsonl, .parquet or .py file");
  }
};

// Sets of problems are small: read at once, by the reader that bench and RL have.
class Problems : public Source {
 public:
  explicit Problems(const ProblemOptions& options) : path_(options.path), problems_(read_problems(options.path)) {}

  std::vector<fs::path> files() const override {
    return fs::is_directory(path_) ? std::vector<fs::path>{} : std::vector{path_};
  }
  std::optional<Row> next() override {
    if (at_ == problems_.size()) return std::nullopt;
    Problem& problem = problems_[at_++];
    Row row;
    row.place = fmt::format("{} {}", path_.string(), problem.id);
    row.uuid = problem.id;
    row.level = problem.level;
    row.problem_id = problem.problem_id;
    row.name = problem.name;
    row.families = problem.families;
    row.problem = std::move(problem.source);
    return row;
  }

 private:
  fs::path path_;
  std::vector<Problem> problems_;
  size_t at_ = 0;
};

struct PairOptions {
  std::string path;
  std::vector<std::string> splits = {"train"};
  template <typename V>
  void describe(V& v) {
    v("path", path, required(), "JSON lines of `tritonforge data generate`, or a folder of them");
    v("splits", splits, one_of({"train", "rl", "holdout"}), "pairs of these splits; the others are dropped, counted");
  }
};

class Pairs : public Source {
 public:
  explicit Pairs(const PairOptions& options)
      : splits_(options.splits), files_(files_of(options.path, {".jsonl"})), lines_(files_) {}

  std::vector<fs::path> files() const override { return files_; }
  std::optional<Row> next() override {
    auto line = lines_.next();
    if (!line) return std::nullopt;
    Row row;
    row.place = line->place;
    if (!line->problem.empty()) row.drop("read", line->problem);
    else take(row, Json(line->value));
    return row;
  }

 private:
  void take(Row& row, const Json& line) {
    try {
      Pair pair = pair_from_json(line, row.place);
      row.uuid = std::move(pair.id);
      row.families = std::move(pair.families);
      row.name = std::move(pair.combo);
      row.level = row.families.size() == 1 ? 1 : 2;
      row.problem = std::move(pair.problem);
      row.solution = std::move(pair.solution);
      for (auto& [_, wrong, feedback] : pair.refinements)
        row.attempts.push_back({std::move(wrong), "", std::move(feedback)});
      if (std::find(splits_.begin(), splits_.end(), pair.split) == splits_.end())
        row.drop("read", fmt::format("of the split '{}'", pair.split));
    } catch (const Error& error) {
      row.drop("read", "not a pair", error.what());
    }
  }

  std::vector<std::string> splits_;
  std::vector<fs::path> files_;
  JsonLines lines_;
};

template <typename Options, typename Make>
std::unique_ptr<Source> made(const YAML::Node& node, const std::string& where, Make&& make) {
  return make(load_config<Options>(node, where));
}

}  // namespace

std::vector<std::string> source_kinds() { return {"kernelbook", "problems", "chat", "pairs", "trajectories"}; }

std::unique_ptr<Source> make_source(const std::string& kind, const YAML::Node& node, const std::string& where,
                                    const SourceTools& tools) {
  if (kind == "kernelbook") return made<KernelBookOptions>(node, where, make_kernelbook);
  if (kind == "chat") return made<ChatOptions>(node, where, make_chat);
  if (kind == "problems")
    return made<ProblemOptions>(node, where, [](const auto& o) { return std::make_unique<Problems>(o); });
  if (kind == "pairs") return made<PairOptions>(node, where, [](const auto& o) { return std::make_unique<Pairs>(o); });
  if (kind == "trajectories")
    return made<TrajectoryOptions>(node, where, [&](const auto& o) { return make_trajectories(o, tools); });
  fail(ErrorKind::kUsage, "{}: unknown source '{}'{}", where, kind, nearest_hint(kind, source_kinds()));
}

std::vector<fs::path> files_of(const fs::path& path, const std::vector<std::string>& endings) {
  if (!fs::exists(path))
    fail(ErrorKind::kNotFound, "{}: no such file or folder{}", path.string(), nearest_path_hint(path));
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end())
      files.push_back(entry.path());
  }
  if (files.empty() && fs::is_directory(path / "data")) return files_of(path / "data", endings);  // as cloned from HF
  if (files.empty()) fail(ErrorKind::kNotFound, "{}: no {} file in it", path.string(), fmt::join(endings, " or "));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tritonforge::dataset
