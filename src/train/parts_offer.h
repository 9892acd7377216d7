#pragma once
// Handing out the current weights from all ranks at once, each its part, to engines that come for them
// (weights/desk.h): no rank puts the model together.
#include <memory>
#include <string>

#include "contract/weights.h"
#include "train/trainer.h"
#include "weights/source.h"

namespace tritonforge::train {

class PartsOffer {
 public:
  // host: of this process, for engines; of rank 0 alone. world: null where the trainer is one process.
  PartsOffer(parallel::World* world, std::string host, std::string key)
      : world_(world), host_(std::move(host)), key_(std::move(key)) {}

  // On rank 0; the others are in give() of the same version meanwhile, which they have been told of. The weights may
  // change once it has returned. Throws kUnavailable naming a rank that could not.
  PublishedWeights publish(Trainer& trainer, int64_t version);
  void give(Trainer& trainer, int64_t version);

 private:
  weights::ChecksumShares take(Trainer& trainer, int64_t version);  // nothing of a rank whose part is another's, too
  parallel::World* const world_;
  const std::string host_, key_;
  std::unique_ptr<weights::Source> source_;  // of the first ranks with a part each
  std::unique_ptr<weights::Desk> desk_;      // rank 0's; ends first, so that no source waits at it
};

}  // namespace tritonforge::train
