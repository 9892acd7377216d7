#pragma once
// The legacy endpoints, for the first TritonForge's trainers and tools (reference: its rollout buffer, port
// 8889):
//   POST /start_rollout, /buffer/write, /buffer/read, /get_rollout_data; GET /buffer/peek, /buffer/stats, /
// with its reply shape {success, message, data: {data, meta_info}}. What it got wrong is right here: rewards above 1
// are kept, a short read takes nothing, peek works, a second /start_rollout adds to the first, items survive a restart,
// and a read batch can be had again (meta_info.lease_id, GET /v2/leases/{id} for groups generated here).
#include <condition_variable>
#include <mutex>

#include "net/http.h"
#include "rollout/service.h"

namespace tritonforge::rollout {

class Legacy {
 public:
  explicit Legacy(RolloutService& service) : service_(service) {}
  void add_routes(net::HttpServer& server);
  void groups_changed();

 private:
  net::Response start_rollout(const Json& body);
  net::Response write(const Json& body);
  // Whole groups until they hold batch_size items (-1: all there are); waits for them until the deadline.
  net::Response read(int64_t batch_size, Deadline deadline, bool take);
  Json stats();
  RolloutService& service_;
  std::mutex mutex_;  // one reader at a time: what it saw is what it takes
  std::mutex change_mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
};

// --- Pure parts ---

// A number that may have come as text ("100"), as legacy trainers send them. Throws kUsage naming the field.
double lenient_number(const Json& object, const char* key, double fallback, const std::string& where);

// The groups that a /start_rollout payload asks for; its prompt file is read. Throws kUsage / kNotFound naming file and
// line.
std::vector<GroupSpec> legacy_groups_from_payload(const Json& payload);

// One trajectory as a legacy item: uid, instance_id, messages, reward, extra_info, execution_details,
// multi_turn_data.
Json legacy_item(const GroupSpec& group, const Trajectory& trajectory);

// Adds raw_reward and replaces reward by its z-score within the group (population deviation); all equal: 0.
void normalise_rewards(std::vector<Json>& items);

}  // namespace tritonforge::rollout
