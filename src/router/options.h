#pragma once
// What a router is started with. Free of its threads: a recipe holds it.
#include <string>
#include <vector>

#include "base/options.h"
#include "base/url.h"

namespace tritonforge::router {

std::vector<std::string> policy_names();  // all of router/policy.h, least_loaded first

struct AdmissionOptions {
  int max_running = 0;
  int max_waiting = 1024;
  double training_rate = 0, evaluation_rate = 0;
  double burst = 64;

  template <typename V>
  void describe(V& v) {
    v("max_running", max_running, at_least(0), "requests at the engines at once, more wait; 0 = no limit");
    v("max_waiting", max_waiting, at_least(0), "requests that wait, training before evaluation; more are refused");
    v("training_rate", training_rate, at_least(0), "requests of training a second (token bucket); 0 = no limit");
    v("evaluation_rate", evaluation_rate, at_least(0), "requests of evaluation a second; 0 = no limit");
    v("burst", burst, at_least(1), "requests that a full token bucket lets through at once");
  }
};

struct RouterOptions {
  std::vector<std::string> workers;
  std::string policy = "least_loaded";
  double health_interval_s = 5, health_timeout_s = 5, silence_timeout_s = 60;
  int failures_until_red = 3;
  double breaker_open_s = 1;
  AdmissionOptions admission;
  std::string worker_api_key;
  double fan_out_timeout_s = 600;

  template <typename V>
  void describe(V& v) {
    v("workers", workers, by_run(), spelled("worker"), in_form(server_url),
      "URL of an engine (also POST /add_worker?url=)");
    v("policy", policy, one_of(policy_names()), "which engine takes a request");
    v("health_interval_s", health_interval_s, at_least(0),
      "seconds between health checks; 0: none, requests alone tell");
    v("health_timeout_s", health_timeout_s, above(0), "seconds until a health check counts as failed");
    v("silence_timeout_s", silence_timeout_s, above(0),
      "seconds of failed health checks, with no answer and no piece of one meanwhile, after which what an engine was "
      "asked is asked of another");
    v("failures_until_red", failures_until_red, at_least(1), "failures in a row until an engine gets no traffic");
    v("breaker_open_s", breaker_open_s, above(0),
      "seconds without a request to an engine that failed as many in a row; doubles up to 60 while it goes on");
    v.part(admission);
    v("fan_out_timeout_s", fan_out_timeout_s, above(0), "seconds for a request that goes to every engine");
  }
};

}  // namespace tritonforge::router
