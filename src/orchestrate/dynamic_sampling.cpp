#include "orchestrate/dynamic_sampling.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::orchestrate {
namespace {

// A look that a restart left behind holds groups that the others need.
void give_back(const BufferCalls& buffer, const std::string& look) {
  try {
    buffer.release(look);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;  // not found: it was never taken
  }
}

}  // namespace

Lease lease_informative(const BufferCalls& buffer, LeaseRequest request, int64_t rounds,
                        const std::function<GroupSpec(size_t index)>& more) {
  const size_t wanted = request.group_ids.size();
  const auto look_id = [&](int64_t round) { return fmt::format("{}-look-{}", request.lease_id, round); };
  for (int64_t round = 1; round <= rounds; ++round) give_back(buffer, look_id(round));
  for (int64_t round = 1; round <= rounds; ++round) {
    LeaseRequest look = request;
    look.lease_id = look_id(round);
    look.samples = 0;
    look.replay = {};  // the final lease does
    look.count = static_cast<int64_t>(look.group_ids.size());
    size_t missing = 0;
    try {
      const Lease seen = buffer.lease(look);
      missing = wanted - std::min(wanted, seen.groups.size() - seen.dropped.size());
      buffer.release(look.lease_id);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConflict) throw;
      request.group_ids.clear();  // they are with the final lease, from before a restart: all that it holds
      return buffer.lease(request);
    }
    if (missing == 0) break;
    std::vector<GroupSpec> groups;
    for (size_t i = 0; i < missing; ++i) {
      groups.push_back(more(request.group_ids.size()));
      request.group_ids.push_back(groups.back().id);
    }
    log::info("{}: {} of {} groups teach nothing; {} more (round {} of {})", request.lease_id, missing, wanted, missing,
              round, rounds);
    buffer.submit(groups);
  }
  request.count = static_cast<int64_t>(request.group_ids.size());
  return buffer.lease(request);
}

}  // namespace tritonforge::orchestrate
