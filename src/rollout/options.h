#pragma once
// What a buffer is started with. A recipe holds it.
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/options.h"
#include "base/url.h"

namespace tritonforge::rollout {

struct PeerOptions {
  std::string router, evaluator;
  double generate_timeout_s = 1200;
  double silence_timeout_s = 60, health_interval_s = 5, health_timeout_s = 5;
  double evaluate_margin_s = 300;
  double patience_s = 900;
  double first_pause_s = 0.1, longest_pause_s = 5;
  std::string api_key, chat_api_key;  // of our servers; of a chat server
  bool awaits_key = true;             // one that is refused is waited for; false: the call fails

  template <typename V>
  void describe(V& v) {
    v("router", router, by_run(), required(), in_form(base_url), "URL of the router (or of one engine)");
    v("evaluator", evaluator, by_run(), required(), in_form(base_url), "URL of the evaluator");
    v("generate_timeout_s", generate_timeout_s, above(0), "seconds for one exchange with the engine");
    v("silence_timeout_s", silence_timeout_s, at_least(0),
      "seconds of failed health checks, with no answer meanwhile, after which an exchange with the engine has failed; "
      "0 = it takes its time");
    v("evaluate_margin_s", evaluate_margin_s, at_least(0),
      "seconds beyond an evaluation's own timeout, for queueing, the reference and compiling");
    v("patience_s", patience_s, at_least(0), "seconds for which failures of one engine or evaluator call are borne");
  }
};

// How much of what was trained on the buffer keeps.
struct Retention {
  int64_t steps = 64;
  int64_t trajectories = 200000;

  template <typename V>
  void describe(V& v) {
    v("keep_steps", steps, at_least(1),
      "commits for which the tokens of what was trained on stay; after that its text and its verdicts do");
    v("keep_trajectories", trajectories, at_least(0),
      "trajectories of which text and verdicts stay, those apart that are not trained on yet; 0 = all");
  }
};

struct ServiceOptions {
  std::filesystem::path database;
  PeerOptions peers;
  Retention retention;
  size_t concurrency = 64, evaluations = 16, max_queued = 100000;

  template <typename V>
  void describe(V& v) {
    v("db", database, by_run(), required(), "SQLite file; it is created, and an existing one is gone on with");
    v.part(peers);
    v("concurrency", concurrency, in(0, 4096),
      "trajectories under way at once; 0: generator processes alone make them");
    v("evaluations", evaluations, in(1, 4096), "evaluations under way at once");
    v("max_queued", max_queued, at_least(1), "samples waiting; more are refused with 503");
    v.part(retention);
  }
};

}  // namespace tritonforge::rollout
