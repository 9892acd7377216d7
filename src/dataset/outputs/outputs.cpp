#include "base/error.h"
#include "dataset/outputs/output.h"

namespace tritonforge::dataset {
namespace {

class JsonlFile {
 public:
  explicit JsonlFile(const fs::path& stem) : file_(with_ending(stem, ".jsonl")) {}
  void write(const Row& row) { file_.write(row.line); }
  std::vector<fs::path> close() { return {file_.close()}; }

 private:
  WholeFile file_;
};

class Jsonl : public Output {
 public:
  explicit Jsonl(const fs::path& folder) : files_(folder) {}
  void prepare(Row& row) override {
    if (row.learns()) row.line = to_json(row).dump() + "\n";
  }
  void write(const Row& row) override {
    if (row.learns()) files_.of(row.split).write(row);
  }
  std::vector<fs::path> close() override { return files_.close(); }

 private:
  BySplit<JsonlFile> files_;
};

struct PromptOptions {
  std::string file = "kernel_bench_triton_all_levels.jsonl", data_source = "kernel_bench_triton";
  template <typename V>
  void describe(V& v) {
    v("file", file, "name of the file");
    v("data_source", data_source, "'data_source' of every row, and the begin of its instance_id");
  }
};

// The original's rows for RL, of the split 'train': what is asked, and the problem as its label.
class RlPrompts : public Output {
 public:
  RlPrompts(const PromptOptions& options, const fs::path& folder, StageTools tools)
      : options_(options), tools_(std::move(tools)), file_(folder / options.file) {}

  void write(const Row& row) override {
    if (row.problem.empty() || row.split != "train") return;  // what is held out is not trained on, in RL either
    Problem problem;
    problem.source = row.problem;
    Json prompt = Json::array();
    for (const auto& message : tools_.first_messages(PromptStyle::kKernelBench, problem))
      prompt.push_back({{"role", message.role}, {"content", message.content}});
    // problem_id is a number to whoever reads it; a row without one of its own is known by its uuid.
    const int number = row.problem_id > 0 ? row.problem_id : ++unnumbered_;
    const std::string own = row.problem_id > 0 ? std::to_string(row.problem_id) : row.uuid;
    file_.write(Json{{"prompt", prompt},
                     {"label", row.problem},
                     {"extra_info",
                      {{"level", row.level},
                       {"problem_id", std::to_string(number)},
                       {"problem_name", row.name},
                       {"data_source", options_.data_source},
                       {"task_type", "kernelbench"}}},
                     {"instance_id", fmt::format("{}_lv{}_{}", options_.data_source, row.level, own)}}
                    .dump() +
                "\n");
  }
  std::vector<fs::path> close() override { return {file_.close()}; }

 private:
  PromptOptions options_;
  StageTools tools_;
  WholeFile file_;
  int unnumbered_ = 0;
};

}  // namespace

WholeFile::WholeFile(fs::path file) : file_(std::move(file)), unfinished_(file_) {
  unfinished_ += ".part";
  stream_.open(unfinished_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail(ErrorKind::kUnavailable, "{}: cannot be written", unfinished_.string());
}

WholeFile::~WholeFile() {
  stream_.close();
  std::error_code ignored;  // where close() came to its end there is nothing left to remove
  fs::remove(unfinished_, ignored);
}

void WholeFile::write(std::string_view bytes) {
  stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream_) fail(ErrorKind::kUnavailable, "{}: cannot be written (disk full?)", unfinished_.string());
}

fs::path WholeFile::close() {
  stream_.close();
  if (!stream_) fail(ErrorKind::kUnavailable, "{}: cannot be written (disk full?)", unfinished_.string());
  fsync_path(unfinished_);
  fs::rename(unfinished_, file_);
  return file_;
}

std::vector<std::string> output_kinds() { return {"jsonl", "parquet", "packed", "megatron", "rl_prompts"}; }

std::unique_ptr<Output> make_jsonl(const fs::path& folder) { return std::make_unique<Jsonl>(folder); }

std::unique_ptr<Output> make_output(const std::string& kind, const YAML::Node& options, const std::string& where,
                                    const StageContext& context) {
  const fs::path folder = context.output / kind;
  if (kind == "rl_prompts")
    return std::make_unique<RlPrompts>(load_config<PromptOptions>(options, where), context.output, context.tools);
  load_config<NoOptions>(options, where);
  if (kind == "jsonl") return make_jsonl(folder);
  if (kind == "parquet") return make_parquet(folder);
  if (kind == "packed" || kind == "megatron") context.need_tokens(fmt::format("the output '{}'", kind));
  if (kind == "packed") return make_packed(folder, context.tokenizer, context.enable_thinking);
  if (kind == "megatron") return make_megatron(folder);
  fail(ErrorKind::kUsage, "{}: unknown output '{}'{}", where, kind, nearest_hint(kind, output_kinds()));
}

}  // namespace tritonforge::dataset
