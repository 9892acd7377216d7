#pragma once
// An engine's end of weights that are sent in rounds (weights/desk.h).
#include <optional>
#include <string>

#include "base/clock.h"
#include "contract/weights.h"
#include "weights/desk.h"
#include "weights/source.h"
#include "weights/staged.h"

namespace tritonforge::weights {

std::string url_of(const DeskPlace& desk);

// One that comes to the desk.
class Caller {
 public:
  explicit Caller(DeskPlace desk);
  // Its next round; nothing: none yet, ask again. Throws kNotFound where nobody answers there, and what the desk said.
  std::optional<Round> ask(const Member& member) const;

 private:
  const DeskPlace desk_;
  const std::unique_ptr<net::HttpClient> client_;
};

// Takes part in rounds until all weights are there: what was there when a round failed is not sent again. id: of this
// process among all receivers. Throws kNotFound where the version is not offered any more, kCorrupt where the offer is
// of another model or a tensor's checksum another, kUnavailable where round after round fails without a single byte,
// kTimeout.
StagedWeights receive_weights(const model::Parts& model, const PublishedWeights& weights, const std::string& key,
                              const std::string& id, Deadline deadline, double stall_s = 15);

}  // namespace tritonforge::weights
