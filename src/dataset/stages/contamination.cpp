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

// The code blocks of what was asked, where a row is a conversation and no pair.
std::vector<std::string> modules_of(const Row& row) {
  if (!row.problem.empty()) return {row.problem};
  std::vector<std::string> blocks;
  constexpr std::string_view kFence = "```";
  for (const auto& [message, learned] : row.messages) {
    const std::string_view text = message.content;
    if (message.role == "assistant") continue;
    if (text.find("class Model") != std::string_view::npos && text.find(kFence) == std::string_view::npos)
      blocks.emplace_back(text);  // asked in the minimal style: the module and nothing else
    for (size_t open = text.find(kFence); open != std::string_view::npos;) {
      const size_t begin = text.find('\n', open);
      const size_t end = begin == std::string_view::npos ? begin : text.find(kFence, begin);
      if (end == std::string_view::npos) break;
      blocks.emplace_back(text.substr(begin + 1, end - begin - 1));
      open = text.find(kFence, end + kFence.size());
    }
  }
  return blocks;
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
    for (const std::string& module : modules_of(row)) {
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
