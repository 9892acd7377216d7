#include <algorithm>

#include "base/rng.h"
#include "dataset/similarity/python_tokens.h"
#include "dataset/stages/forms.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

class Split : public Stage {
 public:
  Split(const SplitOptions& options, uint64_t seed)
      : Stage("split"), options_(options), seed_(Rng::derive(seed, "split")) {}

  void work(Row& row) override {
    const bool named = std::any_of(row.families.begin(), row.families.end(), [&](const std::string& family) {
      return std::find(options_.families.begin(), options_.families.end(), family) != options_.families.end();
    });
    if (named || Rng(Rng::derive(seed_, key_of(row))).uniform() < options_.holdout) row.split = "holdout";
  }

 private:
  // Rows without a family are no family: they are drawn as by hash.
  uint64_t key_of(const Row& row) const {
    if (options_.by == SplitBy::kHash || row.families.empty()) return checksum_of_form(normal_form(problem_of(row)));
    std::vector<std::string> families = row.families;  // in whatever order
    std::sort(families.begin(), families.end());
    return checksum_of_text(fmt::format("{}", fmt::join(families, "+")));
  }

  // Of a conversation: what was said before the first answer, so that all answers to it are on one side.
  static std::string problem_of(const Row& row) {
    if (!row.problem.empty()) return row.problem;
    std::string asked;
    for (const auto& [message, learned] : row.messages) {
      if (message.role == "assistant") break;
      asked += message.content + "\n";
    }
    return asked;
  }

  SplitOptions options_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Stage> make_split(const SplitOptions& options, const StageContext& context) {
  return std::make_unique<Split>(options, context.seed);
}

}  // namespace tritonforge::dataset
