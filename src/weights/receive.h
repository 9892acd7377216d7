#pragma once
// An engine's end of weights that are sent in rounds (weights/desk.h).
#include <functional>
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

// One source's stream, from the byte on that not all members of the round have, at this member's place; nothing where
// all have it. Throws as Relay::pass_all().
void pass_stream(const DeskPlace& desk, const Round& round, int64_t source, const at::Tensor& stream, at::Device device,
                 double stall_s, const std::function<void(int64_t)>& arrived);

// Takes part in rounds until all weights are there: what was there when a round failed is not sent again. id: of this
// process among all receivers. Throws kNotFound where the version is not offered any more, kCorrupt where the offer is
// of another model or a tensor's checksum another, kUnavailable where round after round fails without a single byte,
// kTimeout.
StagedWeights receive_weights(const model::Parts& model, const PublishedWeights& weights, const std::string& key,
                              const std::string& id, Deadline deadline, double stall_s = 15);

}  // namespace tritonforge::weights
