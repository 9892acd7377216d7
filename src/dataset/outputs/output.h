#pragma once
// What a build writes. Everything is written beside its name and takes it in close(): a build that ends early leaves no
// file that looks whole.
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/filesystem.h"
#include "dataset/stages/stage.h"

namespace tritonforge::dataset {

class Output {
 public:
  virtual ~Output() = default;
  virtual void prepare(Row&) {}               // on several threads, each with a row of its own
  virtual void write(const Row& row) = 0;     // in the rows' order
  virtual std::vector<fs::path> close() = 0;  // the files that it wrote, durable by then
};

// A file that has its name once it is whole.
class WholeFile {
 public:
  explicit WholeFile(fs::path file);
  ~WholeFile();
  void write(std::string_view bytes);
  template <typename T>
  void write_values(const std::vector<T>& values) {
    write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  fs::path close();

 private:
  fs::path file_, unfinished_;
  std::ofstream stream_;
};

// kind: jsonl | parquet | packed | megatron | rl_prompts. Each but rl_prompts writes OUTPUT/KIND/SPLIT.*. Throws
// kUsage.
std::unique_ptr<Output> make_output(const std::string& kind, const YAML::Node& options, const std::string& where,
                                    const StageContext& context);
std::vector<std::string> output_kinds();

std::unique_ptr<Output> make_jsonl(const fs::path& folder);
std::unique_ptr<Output> make_parquet(const fs::path& folder);
std::unique_ptr<Output> make_packed(const fs::path& folder, const fs::path& tokenizer, bool enable_thinking);
std::unique_ptr<Output> make_megatron(const fs::path& folder);

inline fs::path with_ending(fs::path stem, const char* ending) { return stem += ending; }

// One object for each split, made when its first row comes.
template <typename File>
class BySplit {
 public:
  explicit BySplit(fs::path folder) : folder_(std::move(folder)) {}
  File& of(const std::string& split) {
    auto& file = files_[split];
    if (file == nullptr) {
      fs::create_directories(folder_);
      file = std::make_unique<File>(folder_ / split);
    }
    return *file;
  }
  std::vector<fs::path> close() {
    std::vector<fs::path> names;
    for (auto& [split, file] : files_) {
      for (fs::path& name : file->close()) names.push_back(std::move(name));
    }
    return names;
  }

 private:
  fs::path folder_;
  std::map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace tritonforge::dataset
