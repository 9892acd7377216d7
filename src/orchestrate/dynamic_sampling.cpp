#include "orchestrate/dynamic_sampling.h"

#include <optional>

#include "base/error.h"
#include "base/log.h"

namespace tritonforge::orchestrate {

namespace {

std::string look_id(const LeaseRequest& request, int64_t round) {
  return fmt::format("{}-look-{}", request.lease_id, round);
}

// How many of the groups teach something; nothing is kept. nullopt: some are with another lease.
std::optional<size_t> look(const BufferCalls& buffer, const LeaseRequest& request, int64_t round) {
  LeaseRequest seen = request;
  seen.lease_id = look_id(request, round);
  seen.samples = 0;
  seen.count = static_cast<int64_t>(seen.group_ids.size());
  try {
    const Lease lease = buffer.lease(seen);
    buffer.release(seen.lease_id);
    return lease.groups.size() - lease.dropped.size();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConflict) throw;
    return std::nullopt;
  }
}

}  // namespace

Lease lease_informative(const BufferCalls& buffer, LeaseRequest request, int64_t rounds,
                        const std::function<GroupSpec(size_t index)>& more) {
  const size_t wanted = request.group_ids.size();
  for (int64_t round = 1; round <= rounds; ++round) {
    std::optional<size_t> teaching = look(buffer, request, round);
    if (!teaching) {  // a restart left a later look
      for (int64_t later = 1; later <= rounds; ++later) buffer.release(look_id(request, later));
      teaching = look(buffer, request, round);
    }
    if (!teaching) {  // or the step's own lease, which alone knows all of its groups
      request.group_ids.clear();
      return buffer.lease(request);
    }
    if (*teaching >= wanted) break;
    const size_t missing = wanted - *teaching;
    std::vector<GroupSpec> groups;
    for (size_t i = 0; i < missing; ++i) {
      groups.push_back(more(request.group_ids.size()));
      request.group_ids.push_back(groups.back().id);
    }
    log::info("{}: {} of {} groups teach nothing; as many more (round {} of {})", request.lease_id, missing, wanted,
              round, rounds);
    buffer.submit(groups);
  }
  request.count = static_cast<int64_t>(request.group_ids.size());
  return buffer.lease(request);
}

}  // namespace tritonforge::orchestrate
