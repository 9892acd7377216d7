// Duplicates of earlier rows: exact, normalised, near. Prompts are compared with prompts and answers with answers,
// since compared_text() holds both problem and solution.
#include <deque>
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
    const auto place = static_cast<uint32_t>(uuids_.size());
    if (options_.exact) {
      const auto [found, fresh] = exact_.emplace(row.compared.exact, place);
      if (!fresh) return row.drop(name(), "exact", uuids_[found->second]);
    }
    uuids_.push_back(row.uuid);
    if (options_.normalised) {
      const auto [found, fresh] = normalised_.emplace(row.compared.normalised, place);
      if (!fresh) return row.drop(name(), "normalised", uuids_[found->second]);
    }
    if (options_.near == 0) return;
    if (const auto match = near_.find(row.compared.signature, options_.near))
      return row.drop(name(), "near", fmt::format("{} ({:.2f})", uuids_[of_near_[match->entry]], match->similarity));
    near_.add(row.compared.signature);
    of_near_.push_back(place);
  }

  Json report() const override {
    return {{"near_threshold", options_.near}, {"shingle_tokens", kShingle}, {"hashes", kHashes}, {"bands", kBands}};
  }

 private:
  DedupOptions options_;
  std::deque<std::string> uuids_;                              // of all rows that no earlier one is exactly
  std::unordered_map<uint64_t, uint32_t> exact_, normalised_;  // to the first one's place in uuids_
  NearIndex near_;
  std::deque<uint32_t> of_near_;  // the places of near_'s entries
};

}  // namespace

std::unique_ptr<Stage> make_dedup(const DedupOptions& options, const StageContext&) {
  return std::make_unique<Dedup>(options);
}

}  // namespace tritonforge::dataset
