#pragma once
// What the buffer and its generator processes say to each other (docs/protocols.md, "Generators as processes").
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "contract/rollout.h"
#include "contract/trajectory.h"
#include "rollout/generator.h"

namespace tritonforge::rollout {

// One sample that is to be generated.
struct WorkItem {
  GroupSpec group;
  int64_t sample = 0;
  std::vector<KeptTurn> kept;  // what there is of it already
};
Json to_json(const WorkItem& item);
WorkItem work_item_from_json(const Json& json, const std::string& where);  // throws kUsage naming the field

// How busy a process is; the last three since its start.
struct ActivityCounts {
  int64_t running = 0, generating = 0, evaluating = 0, turns = 0, failed_turns = 0, sampled_tokens = 0;
  ActivityCounts& operator+=(const ActivityCounts& other);
};

// POST /v2/work. Whoever asks says all that it holds: what it does not name was lost on its way and is for others.
struct WorkRequest {
  std::string worker;  // its name; one that starts again under it begins with nothing
  int64_t count = 0;   // items wanted, at most; 0: it is only heard of
  double timeout_s = 0;
  std::vector<std::string> holding;  // trajectory ids
  ActivityCounts activity;
  std::string refused_key;  // which server refuses which to it; "" where none does
  bool leaving = false;     // it takes nothing more
};
Json to_json(const WorkRequest& request);
WorkRequest work_request_from_json(const Json& body);  // throws kUsage naming the field

// A process asks once so many of its places are free. It names all that it holds each time: of thousands, for each that
// ended, that would be more work than the trajectories themselves.
inline int64_t places_worth_asking_for(int64_t places) { return std::max<int64_t>(1, places / 64); }

// A trajectory on its way to the buffer: u32 bytes of the transcript's JSON, that, its token record.
inline constexpr char kTrajectoryContentType[] = "application/x-tritonforge-trajectory";
std::string to_bytes(const Trajectory& trajectory);
Trajectory trajectory_from_bytes(std::string_view bytes);  // throws kUsage

}  // namespace tritonforge::rollout
