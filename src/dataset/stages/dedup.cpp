// Duplicates of earlier rows: exact, normalised, near. Prompts are compared with prompts and answers with answers,
// since compared_text() holds both problem and solution.
#include <unordered_map>

#include "dataset/similarity/minhash.h"
#include "dataset/similarity/python_tokens.h"
#include "dataset/stages/forms.h"
#include "dataset/stages/stages.h"

namespace tritonforge::dataset {
namespace {

class Dedup : public Stage {
 public:
  explicit Dedup(const DedupOptions& options) : Stage("dedup"), options_(options) {}

  void work(Row& row) override {
    const std::string text = compared_text(row);
    row.compared.exact = checksum_of_text(text);
    const auto form = normal_form(text);
    row.compared.normalised = checksum_of_form(form);
    if (options_.near > 0) row.compared.signature = signature_of(form);
  }

  void decide(Row& row) override {
    if (options_.exact) {
      const auto [found, fresh] = exact_.emplace(row.compared.exact, row.uuid);
      if (!fresh) return row.drop(name(), "exact", found->second);
    }
    if (options_.normalised) {
      const auto [found, fresh] = normalised_.emplace(row.compared.normalised, row.uuid);
      if (!fresh) return row.drop(name(), "normalised", found->second);
    }
    if (options_.near == 0) return;
    if (const auto match = near_.find(row.compared.signature, options_.near))
      return row.drop(name(), "near", fmt::format("{} ({:.2f})", uuids_[match->entry], match->similarity));
    near_.add(row.compared.signature);
    uuids_.push_back(row.uuid);
  }

  Json report() const override {
    return {{"near_threshold", options_.near}, {"shingle_tokens", kShingle}, {"hashes", kHashes}, {"bands", kBands}};
  }

 private:
  DedupOptions options_;
  std::unordered_map<uint64_t, std::string> exact_, normalised_;  // to the uuid of the first
  NearIndex near_;
  std::vector<std::string> uuids_;  // of near_'s entries
};

}  // namespace

std::unique_ptr<Stage> make_dedup(const DedupOptions& options, const StageContext&) {
  return std::make_unique<Dedup>(options);
}

}  // namespace tritonforge::dataset
