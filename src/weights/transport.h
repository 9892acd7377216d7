#pragma once
// How published weights come into an engine's process. There are several ways, and whoever publishes offers those that
// it has (contract/weights.h); an engine takes the first that works of those that it has, too.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "contract/weights.h"
#include "weights/staged.h"

namespace tritonforge::weights {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual bool offered(const PublishedWeights& weights) const = 0;
  // Ready to be installed, and compared with the publisher's checksums as far as that can be done before. Throws; what
  // it throws says nothing of the other ways.
  virtual StagedWeights stage(const model::Parts& model, const PublishedWeights& weights, Deadline deadline) = 0;
};

// The fastest first: the trainer's GPU memory (CUDA IPC), a file that this host sees (in shared memory, or on a disk),
// a round of all who want them (NCCL, Gloo), TCP. `key`: of the run, for the last two.
std::vector<std::unique_ptr<Transport>> make_transports(std::string key);

}  // namespace tritonforge::weights
