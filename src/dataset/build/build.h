#pragma once
// tritonforge data build: sources, through stages, to outputs, as a YAML file lists them (docs/data.md).
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/build/card.h"
#include "dataset/outputs/output.h"
#include "dataset/sources/source.h"
#include "dataset/stages/stage.h"

namespace tritonforge::dataset {

struct BuildOptions {
  std::string name, output, tokenizer;
  uint64_t seed = 1;
  bool enable_thinking = true;
  int64_t threads = 0, block_rows = 512;
  template <typename V>
  void describe(V& v) {
    v("name", name, required(), "name of the data set");
    v("output", output, required(), "folder to write to");
    v("tokenizer", tokenizer, "folder or file of the target's tokenizer, whose chat template is the format");
    v("seed", seed, "every random choice follows from it");
    v("enable_thinking", enable_thinking, "Qwen3: lets the model think");
    v("threads", threads, in(0, 256), "rows worked on at once; 0 = one a core");
    v("block_rows", block_rows, in(1, 65536), "rows that are in memory together; blocks end at 16 MiB, too");
  }
};

struct BuildTools {
  SourceTools sources;
  StageTools stages;
};

class Build {
 public:
  // Reads the configuration and makes everything in it. Throws kUsage naming the key.
  Build(const YAML::Node& config, const std::string& where, BuildTools tools);
  ~Build();
  // Runs it. `on_rows` is told how many rows were read so far. The same inputs and seed give the same bytes.
  Card run(const std::function<void(int64_t rows)>& on_rows);

 private:
  struct NamedSource {
    std::string name;
    std::unique_ptr<Source> source;
  };
  std::vector<Row> read_block();
  void through(Stage& stage, std::vector<Row>& rows, StageCounts& counts) const;
  void write(std::vector<Row> rows);

  BuildOptions options_;
  std::vector<NamedSource> sources_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<std::pair<std::string, std::unique_ptr<Output>>> outputs_;
  std::unique_ptr<WholeFile> dropped_;
  size_t source_ = 0;  // that rows are read from
  Card card_;
};

}  // namespace tritonforge::dataset
