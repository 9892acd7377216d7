#pragma once
// The legacy endpoints, for the first TritonForge's trainers and tools (reference: its rollout buffer, port
// 8889):
//   POST /start_rollout, /buffer/write, /buffer/read, /get_rollout_data; GET /buffer/peek, /buffer/stats, /
// with its reply shape {success, message, data: {data, meta_info}}. What it got wrong is right here: rewards above 1
// are kept, a short read takes nothing, peek works, a second /start_rollout adds to the first (one that differs in
// skip_instance_ids alone is of a trainer that starts again, and takes its place), items survive a restart, and a read
// batch can be had again (meta_info.lease_id, GET /v2/leases/{id} for groups generated here).
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/http.h"
#include "rollout/answer_queue.h"
#include "rollout/one_at_a_time.h"
#include "rollout/service.h"

namespace tritonforge::rollout {

// What a /start_rollout payload asks for: `passes` passes (num_epoch) over the prompts of its file.
struct LegacyRollout {
  std::vector<GroupSpec> prompts;  // in the file's order
  int64_t passes = 3;
  uint64_t seed = 42;
  std::vector<GroupSpec> pass(int64_t number) const;  // in an order of its own, with ids of its own
  size_t samples_of_a_pass() const;
};

class Legacy {
 public:
  explicit Legacy(RolloutService& service);  // goes on with the rollouts that were under way
  void add_routes(net::HttpServer& server);
  void groups_changed();

 private:
  net::Response start_rollout(const Json& body);
  // Passes begin one after another, each once fewer samples wait than one has: a legacy trainer asks for a thousand at
  // once.
  void begin_passes();
  void begin_those_with_room();
  net::Response write(const Json& body);
  // Whole groups until they hold batch_size items (-1: all there are); nothing: not yet.
  std::optional<net::Response> batch(int64_t batch_size, bool take, const Deadline& deadline);
  Json stats();
  void keep_passes();
  RolloutService& service_;
  struct UnderWay {
    Json payload;
    LegacyRollout rollout;
    int64_t next_pass = 0;
    bool ended() const { return next_pass >= rollout.passes || rollout.prompts.empty(); }
  };
  OneAtATime beginning_;
  std::mutex passes_mutex_;          // the next two
  std::vector<UnderWay> under_way_;  // whose passes are not all begun; durable as the setting "rollout"
  std::string kept_;                 // that setting
  AnswerQueue readers_;              // last: its thread uses all of the above
};

// --- Pure parts ---

// A number that may have come as text ("100"), as legacy trainers send them. Throws kUsage naming the field.
double lenient_number(const Json& object, const char* key, double fallback, const std::string& where);

// Reads the prompt file. Throws kUsage / kNotFound naming file and line.
LegacyRollout legacy_rollout_from_payload(const Json& payload);

// One trajectory as a legacy item: uid, instance_id, messages, reward, extra_info (the prompt's own, timestamp,
// round_number), execution_details, multi_turn_data.
Json legacy_item(const GroupSpec& group, const Trajectory& trajectory);

// Adds raw_reward and replaces reward by its z-score within the group (population deviation); all equal: 0.
void normalise_rewards(std::vector<Json>& items);

}  // namespace tritonforge::rollout
