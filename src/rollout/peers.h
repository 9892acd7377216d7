#pragma once
// The two servers a trajectory needs, as calls: the router (tokens) and the evaluator (a verdict). A call is repeated
// while its failure can pass (no connection, time-out, 408, 429, 5xx), with growing pauses, until it succeeds, its
// patience ends, or a stop is asked for. An engine that answers that it waits for newer weights (the version barrier)
// has not failed: that takes no patience, and neither does one that refuses its key (rollout/refused_keys.h). One that
// hangs has (rollout/silence_watch.h).
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "contract/rollout.h"
#include "contract/verdict.h"
#include "net/async_client.h"
#include "rollout/options.h"
#include "rollout/refused_keys.h"
#include "rollout/silence_watch.h"

namespace tritonforge::rollout {

// Whether the same request may be answered otherwise later.
bool may_pass(int status);

// At most `limit` holders at once.
class Gate {
 public:
  explicit Gate(size_t limit) : free_(limit) {}
  void enter();
  void leave();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t free_;
};

struct Completion {
  std::vector<int64_t> tokens;
  std::vector<float> log_probs;
  std::vector<int64_t> weight_versions;
  bool truncated = false;  // met max_new_tokens
};

class Peers {
 public:
  explicit Peers(PeerOptions options);
  // Samples until a stop token or `max_new_tokens`. A generation that the engine aborted in between (new weights, a
  // pause) is continued from the tokens that were already sampled, each with its own weight version.
  Result<Completion> generate(const GroupSpec& group, const std::string& request_id, const std::vector<int64_t>& prompt,
                              int64_t max_new_tokens, uint64_t seed, const std::vector<int64_t>& stop_tokens,
                              std::stop_token stop) const;
  // One answer of a server with OpenAI's chat completions, at the group's `router` + /chat/completions.
  struct Reply {
    std::string text;        // what a reasoning parser took out of it is in front again, between <think> and </think>
    bool truncated = false;  // met max_new_tokens
  };
  Result<Reply> chat(const GroupSpec& group, const std::string& request_id,
                     const std::vector<tokenizer::Message>& messages, uint64_t seed, std::stop_token stop) const;
  Result<Verdict> evaluate(const GroupSpec& group, const std::string& request_id, const std::string& code,
                           std::stop_token stop) const;
  // Lets the evaluator make the problem's reference while the group's first answers are generated. Asked once: what it
  // does not do now it does with the first candidate.
  void prepare(const GroupSpec& group, const std::string& request_id) const;
  const PeerOptions& options() const { return options_; }
  std::string refused_key() const { return keys_.line(); }  // which server refuses which; "" where none does

 private:
  struct Key {
    const std::string& value;
    const char* place;  // where it is from
  };
  Key own_key() const { return {options_.api_key, "--peer-api-key-file or TRITONFORGE_PEER_API_KEY"}; }
  struct Call {
    std::string what;        // for messages
    std::string request_id;  // goes along as x-request-id, and its trace as traceparent (contract/trace_ids.h)
    std::string url;
    double timeout_s;
    Key key;
    net::Headers headers = {};  // beside those that every call has
    std::string health = "";    // what a server that may hang is asked meanwhile; "": its own time is the bound
  };
  Result<Json> ask(const Call& call, const Json& body, std::stop_token stop) const;
  // Waits for the reply.
  Result<net::Response> exchange(const std::shared_ptr<const net::AsyncRequest>& request,
                                 const std::string& health) const;
  const std::string& router_of(const GroupSpec& group) const {
    return group.options.router.empty() ? options_.router : group.options.router;
  }
  const std::string& evaluator_of(const GroupSpec& group) const {
    return group.options.evaluator.empty() ? options_.evaluator : group.options.evaluator;
  }
  PeerOptions options_;
  mutable net::AsyncClient client_;
  mutable RefusedKeys keys_;
  mutable SilenceWatch silence_;
};

// The body of POST /v2/evaluations.
Json evaluation_request(const std::string& problem_id, const std::string& problem_source, const std::string& candidate,
                        uint64_t seed, const EvaluationOptions& options);

}  // namespace tritonforge::rollout
