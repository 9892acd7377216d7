// Rows that hold an evaluation problem, whatever its names and layout, or one much like it.
#include <map>
#include <unordered_map>

#include "dataset/problem.h"
#include "dataset/similarity/minhash.h"
#include "dataset/similarity/python_tokens.h"
#include "dataset/stages/forms.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

// A text and, where it goes on before a module begins, what stands from the module's first line on.
void add_from_module_on(std::string_view text, std::vector<std::string_view>& parts) {
  if (text.empty()) return;
  parts.push_back(text);
  for (const std::string_view begin : {"import torch", "class Model"}) {
    if (const size_t at = text.find(begin); at != std::string_view::npos && at > 0) parts.push_back(text.substr(at));
  }
}

// A message cut at each line that begins with a fence, so that neither ``` within a line nor a block that is not closed
// hides a module. What stands outside of the blocks is compared, too.
void add_parts_of(std::string_view text, std::vector<std::string_view>& parts) {
  size_t begin = 0;
  for (size_t line = 0; line < text.size();) {
    const size_t next = std::min(text.find('\n', line), text.size() - 1) + 1;
    const size_t word = std::min(text.find_first_not_of(" \t", line), next);
    if (text.substr(word).starts_with("```")) {
      add_from_module_on(text.substr(begin, line - begin), parts);
      begin = next;
    }
    line = next;
  }
  add_from_module_on(text.substr(begin), parts);
}

std::vector<std::string_view> modules_of(const Row& row) {
  if (!row.problem.empty()) return {row.problem};
  std::vector<std::string_view> parts;
  for (const auto& each : row.messages) add_parts_of(each.message.content, parts);
  return parts;
}

class Contamination : public Stage {
 public:
  explicit Contamination(const ContaminationOptions& options) : Stage("contamination"), options_(options) {
    for (const std::string& path : options.problems) {
      for (const Problem& problem : read_problems(path)) {
        const auto form = normal_form(problem.source);
        exact_.emplace(checksum_of_form(form), static_cast<uint32_t>(names_.size()));
        near_.add(signature_of(form));
        names_.push_back(problem.id);
      }
    }
  }

  void work(Row& row) override {
    for (const std::string_view module : modules_of(row)) {
      const auto form = normal_form(module);
      if (const auto found = exact_.find(checksum_of_form(form)); found != exact_.end())
        return row.drop(name(), "an evaluation problem", names_[found->second]);
      if (options_.near == 0) continue;
      if (const auto match = near_.find(signature_of(form), options_.near))
        return row.drop(name(), "near an evaluation problem",
                        fmt::format("{} ({:.2f})", names_[match->entry], match->similarity));
    }
  }

  Json report() const override { return {{"evaluation_problems", names_.size()}, {"near_threshold", options_.near}}; }

 private:
  ContaminationOptions options_;
  std::unordered_map<uint64_t, uint32_t> exact_;
  NearIndex near_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Stage> make_contamination(const ContaminationOptions& options, const StageContext&) {
  return std::make_unique<Contamination>(options);
}

}  // namespace tritonforge::dataset
