#pragma once
// An engine in a process of its own, for what measures and tests updates of the weights across processes.
//   POST /load {"sequences"}        that many decode from 512 tokens on; answers once 50 steps were taken
//   POST /steps {"wait"}            waits for so many more -> {"longest", "median"}: seconds between two steps, the
//                                   longest since this was asked last
//   POST /pause, /resume {}         the latter answers once a step was taken, where there is a load
//   POST /update PUBLISHED WEIGHTS  -> {"weight_version", "checksums"}, as the engine's own server
//   POST /tokens {}                 ends the load -> {"ids"}: the greedy answer to a prompt that is always the same
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bench/qwen3_8b.h"
#include "bench/server_process.h"
#include "contract/weights.h"
#include "engine/engine.h"

namespace tritonforge {

class EngineUnderLoad {
 public:
  EngineUnderLoad(const engine::EngineOptions& options, std::unique_ptr<model::Model> model)
      : vocabulary_(model->config().vocab_size), engine_(options, std::move(model), nullptr) {}

  Json load(int64_t sequences) {
    for (int64_t i = 0; i < sequences; ++i) {
      engine::Request request;
      request.prompt_ids = bench_prompt(512, i, vocabulary_);
      request.sampling.max_new_tokens = kAnswer;
      request.sampling.ignore_eos = true;
      request.sampling.seed = static_cast<uint64_t>(i);
      request.stream = i == 0;
      if (i == 0) request.on_output = [this](const engine::Output&) { count_step(); };
      engine_.submit(std::move(request)).value();
    }
    wait_steps(50);
    return Json::object();
  }
  Json steps(size_t wait) {
    wait_steps(wait);
    const std::lock_guard lock(mutex_);
    double longest = 0;
    std::vector<double> gaps;
    for (size_t i = 1; i < steps_.size(); ++i) {
      gaps.push_back(std::chrono::duration<double>(steps_[i] - steps_[i - 1]).count());
      if (i >= asked_) longest = std::max(longest, gaps.back());
    }
    asked_ = steps_.size();
    std::nth_element(gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2), gaps.end());
    return {{"longest", longest}, {"median", gaps[gaps.size() / 2]}};
  }
  Json pause() {
    engine_.pause();
    return Json::object();
  }
  Json resume() {
    engine_.resume();
    if (!steps_.empty()) wait_steps(1);
    return Json::object();
  }
  Json update(const PublishedWeights& weights) {
    const InstalledWeights installed = engine_.update_weights(weights).value();
    return {{"weight_version", std::to_string(installed.version)}, {"checksums", installed.checksums}};
  }
  Json tokens() {
    engine_.abort_all("measured");
    const std::lock_guard lock(mutex_);
    steps_.clear();
    asked_ = 0;
    return {{"ids", greedy_tokens(engine_, vocabulary_)}};
  }

 private:
  static constexpr int64_t kAnswer = 12000;  // tokens: more steps than are taken

  void count_step() {
    const std::lock_guard lock(mutex_);
    steps_.push_back(Clock::now());
    came_.notify_all();
  }
  void wait_steps(size_t more) {
    std::unique_lock lock(mutex_);
    const size_t target = steps_.size() + more;
    TF_CHECK(came_.wait_for(lock, std::chrono::seconds(120), [&] { return steps_.size() >= target; }), "no steps");
  }

  const int64_t vocabulary_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Clock::time_point> steps_;  // at which the first sequence got a token
  size_t asked_ = 0;                      // of them there were when somebody asked last
  engine::Engine engine_;
};

inline int run_weight_engine(int port, const engine::EngineOptions& options, std::unique_ptr<model::Model> model) {
  EngineUnderLoad engine(options, std::move(model));
  SignalWaiter signals;
  net::HttpServer server({.port = port, .worker_threads = 2});
  const auto route = [&](const char* path, auto answer) {
    server.route("POST", path,
                 [answer](const net::Request& request) { return net::Response::json(answer(request.json())); });
  };
  route("/load", [&](const Json& body) { return engine.load(body.at("sequences")); });
  route("/steps", [&](const Json& body) { return engine.steps(body.at("wait")); });
  route("/pause", [&](const Json&) { return engine.pause(); });
  route("/resume", [&](const Json&) { return engine.resume(); });
  route("/update", [&](const Json& body) { return engine.update(published_weights_from_json(body)); });
  route("/tokens", [&](const Json&) { return engine.tokens(); });
  server.start();
  signals.block();
  return 0;
}

// The other side: this program, started again with `arguments` and a port behind them.
class WeightEngine : public ServerProcess {
 public:
  using ServerProcess::ServerProcess;
  Result<InstalledWeights> update(const PublishedWeights& weights) {
    const Result<Json> reply = post("/update", to_json(weights));
    if (!reply.ok()) return reply.error();
    return installed_weights_from_json(url(""), *reply);
  }
  std::vector<int64_t> tokens() { return post("/tokens").value().at("ids"); }
};

}  // namespace tritonforge
