#pragma once
// Where rows come from. A source hands them over one by one, in the order of its files, and holds no file whole. A row
// that cannot be used is handed over too, dropped with its reason; what cannot be read at all is an Error.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/filesystem.h"
#include "dataset/build/row.h"

namespace tritonforge::dataset {

class Source {
 public:
  virtual ~Source() = default;
  virtual std::optional<Row> next() = 0;
  virtual std::vector<fs::path> files() const = 0;  // whose digests the card holds
};

// Trajectories of an earlier run, one by one, with the problem that each was asked.
struct PastTrajectory {
  std::string problem_id, problem;
  std::vector<tokenizer::Message> opening;
  struct PastTurn {
    std::string text, code, feedback;  // what was said to it; "" of the last
    Verdict verdict;
  };
  std::vector<PastTurn> turns;
};
class PastTrajectories {
 public:
  virtual ~PastTrajectories() = default;
  virtual std::optional<PastTrajectory> next() = 0;
};

struct SourceTools {
  // Opens a run's folder or its buffer.sqlite. The store is rollout's, which stands below this folder.
  std::function<std::unique_ptr<PastTrajectories>(const fs::path&)> open_run;
};

// kind: kernelbook | problems | chat | pairs | trajectories, with the options of that kind (docs/data.md). Throws
// kUsage naming the option, kNotFound, kCorrupt naming the file.
std::unique_ptr<Source> make_source(const std::string& kind, const YAML::Node& options, const std::string& where,
                                    const SourceTools& tools);
std::vector<std::string> source_kinds();

// `path` itself, or the files of a folder that end so, sorted; a folder's data/ where it has none of its own. Throws
// kNotFound.
std::vector<fs::path> files_of(const fs::path& path, const std::vector<std::string>& endings);

}  // namespace tritonforge::dataset
