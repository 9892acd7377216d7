#pragma once
// A folder into which all ranks of a job write at the same time. Rank 0 makes it, has told the others to be ready for
// it (ranks.h), and hears what became of their parts.
#include <functional>

#include "train/rank_part.h"

namespace tritonforge::train {

// Rank 0's word with the others about one folder. Where it ends unsaid, they hear that there is none.
class OtherRanks {
 public:
  // number: which of the folders that they were told of.
  OtherRanks(parallel::World& world, int64_t number) : world_(world), number_(number) {}
  ~OtherRanks();
  OtherRanks(const OtherRanks&) = delete;
  OtherRanks& operator=(const OtherRanks&) = delete;
  // They write into the folder, while `own` does. Returns the checksums of all of them, once nobody writes any more;
  // throws what `own` threw, or kUnavailable naming a rank that could not.
  Json write(const fs::path& folder, const std::function<Json()>& own);

 private:
  parallel::World& world_;
  const int64_t number_;
  bool told_ = false;
};

// On another rank: waits for the folder, writes its part there, says how that went.
void write_for_rank_0(parallel::World& world, int64_t number, const RankPart& part);

}  // namespace tritonforge::train
