#pragma once
// Dynamic sampling (DAPO, arXiv 2503.14476): a step trains on as many groups that teach something as it has prompts;
// those whose returns are all equal are replaced by groups of other problems, for a bounded number of rounds.
#include <functional>

#include "contract/lease.h"
#include "contract/rollout.h"

namespace tritonforge::orchestrate {

struct BufferCalls {  // of a Buffer
  std::function<void(const std::vector<GroupSpec>&)> submit;
  std::function<Lease(const LeaseRequest&)> lease;
  std::function<void(const std::string&)> release;
};

// The lease of `request`'s groups and of those that were added: `more(i)` is the i-th group of the step, counted on
// from the first ones. Each round leases what there is to see what it teaches, gives it back, and submits as many
// groups as are missing. The final lease has request.lease_id; where the buffer knows it already, from before a
// restart, it is given as it was.
Lease lease_informative(const BufferCalls& buffer, LeaseRequest request, int64_t rounds,
                        const std::function<GroupSpec(size_t index)>& more);

}  // namespace tritonforge::orchestrate
