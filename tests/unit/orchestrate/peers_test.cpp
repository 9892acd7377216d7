#include "orchestrate/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "base/filesystem.h"

namespace tritonforge::orchestrate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A process for the supervisor to watch: it answers /health, and nothing else. What the calls meet is a server of the
// test, so that a death and what the role says afterwards can be told apart.
constexpr const char* kProcess = R"(
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{"status": "green"}')
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
)";

class PeersTest : public testing::Test {
 protected:
  PeersTest() : logs("peers"), supervisor(logs.path()), http(net::ServerOptions{.worker_threads = 4}) {}
  ~PeersTest() override { supervisor.stop_all(); }

  Role role(const std::string& name) {
    const int port = free_port();
    RoleSpec spec;
    spec.name = name;
    spec.argv = {TF_PYTHON, "-c", kProcess, std::to_string(port)};
    spec.url = fmt::format("http://127.0.0.1:{}", port);
    spec.ready_timeout_s = 30;
    std::vector<RoleSpec> specs;
    specs.push_back(std::move(spec));
    supervisor.start(std::move(specs));
    return Role(supervisor, name, http.url());
  }
  void route(const std::string& method, const std::string& path, net::Handler handler) {
    http.route(method, path, std::move(handler));
  }
  // Kills the only role's process and returns once it was started again.
  void kill_and_wait() {
    const auto before = supervisor.status().at(0);
    ASSERT_EQ(::kill(before.pid, SIGKILL), 0);
    const Deadline deadline = Deadline::after(60);
    while (supervisor.restarts(before.name) == before.restarts && !deadline.expired()) std::this_thread::yield();
    supervisor.wait_ready(before.name, deadline);
  }

  TemporaryFolder logs;
  Supervisor supervisor;
  net::HttpServer http;
};

StepResult trained(int64_t step) {
  StepResult result;
  result.metrics.step = step;
  result.metrics.loss = 0.25;
  return result;
}

TEST_F(PeersTest, ARoleWithoutRoomIsAskedAgainAndARefusalIsNot) {
  std::atomic<int> asked{0};
  route("POST", "/busy", [&](const net::Request&) {
    if (++asked < 4) return net::Response::error(Error(ErrorKind::kUnavailable, "no room"));
    return net::Response::json({{"asked", asked.load()}});
  });
  route("POST", "/wrong", [&](const net::Request&) {
    ++asked;
    return net::Response::error(Error(ErrorKind::kUsage, "'sed' is no field"));
  });
  http.start();
  const Role role = this->role("buffer");
  EXPECT_EQ(role.post("/busy", Json::object(), 5).at("asked"), 4);
  asked = 0;
  try {
    role.post("/wrong", Json::object(), 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("buffer: POST /wrong: 400 'sed' is no field"));
  }
  EXPECT_EQ(asked, 1);
}

TEST_F(PeersTest, ARoleThatWasStoppedEndsTheCall) {
  http.start();
  const Role role = this->role("buffer");
  http.stop(0);
  supervisor.stop_all();
  try {
    role.post("/v2/rollouts", Json::object(), 5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("'buffer' is not running"));
  }
}

TEST_F(PeersTest, TheBufferTakesGroupsAndGivesALeaseOnceItIsThere) {
  std::vector<Json> bodies;
  route("POST", "/v2/rollouts", [&](const net::Request& request) {
    bodies.push_back(request.json());
    return net::Response::json(Json::object());
  });
  std::atomic<int> rounds{0};
  route("POST", "/v2/groups/lease", [&](const net::Request& request) {
    if (++rounds < 3) return net::Response::error(Error(ErrorKind::kTimeout, "1 of 2 groups complete"));
    bodies.push_back(request.json());
    Lease lease;
    lease.id = request.json().at("lease_id");
    lease.figures.trajectories = 6;
    lease.dropped.push_back({"g1", "zero_variance"});
    return net::Response::json(to_json(lease));
  });
  std::string committed;
  route("POST", "/v2/leases/{id}/commit", [&](const net::Request& request) {
    committed = request.parameters.at("id") + "@" + request.json().at("step").dump();
    return net::Response::json(Json::object());
  });
  http.start();
  const Buffer buffer(role("buffer"));
  GroupSpec group;
  group.id = "g0";
  group.problem_id = "p";
  group.problem_source = "class Model: pass";
  group.n_samples = 3;
  group.seed = 9;
  group.options.gamma = 0.5;
  buffer.submit({group});
  buffer.submit({});
  const Lease lease = buffer.lease({.lease_id = "l", .count = 2, .group_ids = {"g0", "g1"}});
  buffer.commit(lease.id, 4);

  ASSERT_EQ(bodies.size(), 2u);
  const auto options = rollout_options_from_json(bodies[0].at("options"), "test");
  const auto sent = group_spec_from_json(bodies[0].at("groups").at(0), options, "test");
  EXPECT_EQ(sent.id, "g0");
  EXPECT_EQ(sent.n_samples, 3);
  EXPECT_EQ(sent.seed, 9u);
  EXPECT_EQ(sent.options.gamma, 0.5);
  EXPECT_EQ(rounds, 3);
  EXPECT_EQ(bodies[1].at("group_ids"), Json({"g0", "g1"}));
  EXPECT_EQ(lease.figures.trajectories, 6);
  EXPECT_EQ(lease.dropped.at(0).group_id, "g1");
  EXPECT_EQ(committed, "l@4");
}

TEST_F(PeersTest, TheTrainerGetsSftInBinaryAndRlByName) {
  std::vector<net::Request> requests;
  route("POST", "/step", [&](const net::Request& request) {
    requests.push_back(request);
    return net::Response::json(to_json(trained(static_cast<int64_t>(requests.size()))));
  });
  route("GET", "/status",
        [](const net::Request&) { return net::Response::json({{"step", 0}, {"checkpoint_step", -1}}); });
  route("POST", "/publish_weights", [](const net::Request& request) {
    return net::Response::json(to_json(PublishedWeights{"/w", request.json().at("version"), {{"norm", "1"}}}));
  });
  route("POST", "/save", [](const net::Request&) { return net::Response::json({{"path", "/c"}, {"step", 2}}); });
  http.start();
  Trainer trainer(role("trainer"));
  EXPECT_EQ(trainer.status().step, 0);
  const TrainSequence taught{{4, 5}, {0, 1}, {0, 0}, {0, 0}, {-1, -1}, "", 1.0};
  EXPECT_EQ(std::get<StepResult>(trainer.step({StepKind::kSft, 1, "", "", -1, {taught}})).metrics, trained(1).metrics);
  trainer.step({StepKind::kRl, 2, "rl-step-2", "http://b:1", {}});
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].headers.at("content-type"), kSequencesContentType);
  EXPECT_EQ(sft_step_from_binary(requests[0].body).sequences, std::vector<TrainSequence>{taught});
  EXPECT_EQ(step_request_from_json(requests[1].json()).lease_id, "rl-step-2");
  EXPECT_EQ(trainer.publish(3).version, 3);
  EXPECT_EQ(trainer.save(), 2);
}

TEST_F(PeersTest, ATrainerThatDiedIsRolledBackWheneverItDied) {
  std::atomic<int64_t> done{7};
  std::atomic<int> steps{0};
  route("GET", "/status",
        [&](const net::Request&) { return net::Response::json({{"step", done.load()}, {"checkpoint_step", 6}}); });
  route("POST", "/step", [&](const net::Request&) {
    ++steps;
    return net::Response::json(to_json(trained(done.load() + 1)));
  });
  route("POST", "/publish_weights", [&](const net::Request&) -> net::Response {
    ADD_FAILURE() << "weights of an older step were asked for";
    return net::Response::json(Json::object());
  });
  http.start();
  Trainer trainer(role("trainer"));
  trainer.status();
  kill_and_wait();  // between two calls: no call failed
  done = 6;
  EXPECT_THROW(trainer.publish(8), Error);
  const auto outcome = trainer.step({StepKind::kRl, 8, "rl-step-8", "http://b:1", {}});
  ASSERT_TRUE(std::holds_alternative<RolledBack>(outcome));
  EXPECT_EQ(std::get<RolledBack>(outcome).next_step, 7);
  EXPECT_EQ(steps, 0);
  EXPECT_TRUE(std::holds_alternative<StepResult>(trainer.step({StepKind::kRl, 7, "rl-step-7", "http://b:1", {}})));
}

TEST_F(PeersTest, AStepThatIsRefusedIsAnErrorAndNoRollback) {
  route("GET", "/status",
        [](const net::Request&) { return net::Response::json({{"step", 0}, {"checkpoint_step", -1}}); });
  route("POST", "/step",
        [](const net::Request&) { return net::Response::error(Error(ErrorKind::kUsage, "nothing to train on")); });
  http.start();
  Trainer trainer(role("trainer"));
  trainer.status();
  EXPECT_THROW(trainer.step({StepKind::kSft, 1, "", "", {}}), Error);
}

// Engines behind a router: `reply` is what the router says to an update.
class EnginesTest : public PeersTest {
 protected:
  EnginesTest() : file(logs.path() / "w.safetensors") { write_file_atomic(file, "weights"); }
  static Json engine(const std::string& version, const std::string& sum) {
    return {{"success", true}, {"weight_version", version}, {"checksums", {{"norm", sum}}}};
  }
  void answer_with(std::function<net::Response(int round)> reply) {
    route("POST", "/update_weights_from_tensor", [this, reply](const net::Request& request) {
      requests.push_back(request.json());
      return reply(static_cast<int>(requests.size()));
    });
    http.start();
  }
  std::string error_of_install(Engines& engines) {
    try {
      engines.install({file, 4, {{"norm", "ab"}}});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
  fs::path file;
  std::vector<Json> requests;
};

TEST_F(EnginesTest, AnEngineThatIsDownGetsTheWeightsWhenItIsBack) {
  answer_with([](int round) {
    Json workers = {{"http://e:1", engine("4", "ab")}};
    if (round >= 3) return net::Response::json({{"success", true}, {"workers", workers}});
    workers["http://e:2"] = {{"error", {{"message", "connection refused"}, {"type", "unavailable"}}}};
    return net::Response::json({{"success", false},
                                {"workers", workers},
                                {"error", {{"message", "1 of 2 workers failed"}, {"type", "unavailable"}}}},
                               502);
  });
  Engines engines(role("router"), {"http://e:1", "http://e:2"});
  const auto installed = engines.install({file, 4, {{"norm", "ab"}}});
  ASSERT_EQ(installed.size(), 1u);
  EXPECT_EQ(installed[0].engine, "http://e:1");
  EXPECT_EQ(installed[0].version, 4);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].at("path"), file.string());
  EXPECT_EQ(requests[0].at("weight_version"), "4");
}

TEST_F(EnginesTest, AnEngineThatRefusesEndsItAtOnce) {
  answer_with([](int) {
    return net::Response::json(
        {{"success", false},
         {"workers", {{"http://e:1", {{"success", false}, {"error", {{"message", "checksum"}, {"type", "corrupt"}}}}}}},
         {"error", {{"message", "1 of 1 workers failed"}, {"type", "unavailable"}}}},
        502);
  });
  Engines engines(role("router"), {"http://e:1"});
  EXPECT_THAT(error_of_install(engines), HasSubstr("http://e:1 refuses weights version 4"));
  EXPECT_EQ(requests.size(), 1u);
}

TEST_F(EnginesTest, OtherWeightsThanThePublishersAreAnError) {
  answer_with([](int) { return net::Response::json({{"workers", {{"http://e:1", engine("4", "ff")}}}}); });
  Engines engines(role("router"), {"http://e:1"});
  EXPECT_THAT(error_of_install(engines), HasSubstr("tensor 'norm' is ff instead of ab"));
}

TEST_F(EnginesTest, AFreshEngineGetsTheNewestWeightsBeforeTheRouterKnowsIt) {
  std::vector<std::string> order;
  route("POST", "/add_worker", [&](const net::Request& request) {
    order.push_back("add " + request.json().at("url").get<std::string>());
    return net::Response::json(Json::object());
  });
  answer_with([&](int) {
    order.push_back("update");
    Json reply = engine("4", "ab");
    reply["workers"] = {{"http://e:1", engine("4", "ab")}};
    return net::Response::json(reply);
  });
  Engines engines(role("router"), {http.url()});  // router and engine are the same server here
  engines.bring_up(http.url());                   // nothing was published yet
  engines.install({file, 4, {{"norm", "ab"}}});
  engines.bring_up(http.url());
  EXPECT_THAT(order, ElementsAre("add " + http.url(), "update", "update", "add " + http.url()));
}

TEST_F(PeersTest, TheEvaluatorJudges) {
  Json body;
  route("POST", "/v2/evaluations", [&](const net::Request& request) {
    body = request.json();
    Verdict verdict;
    verdict.correct = true;
    return net::Response::json(to_json(verdict));
  });
  http.start();
  const Evaluator evaluator(role("evaluator"));
  EvaluationOptions options;
  options.mode = "interpret";
  options.measure_performance = false;
  EXPECT_TRUE(evaluator.judge({.id = "p", .source = "class Model: pass"}, "class ModelNew: pass", 5, options).correct);
  EXPECT_EQ(body.at("problem").at("source"), "class Model: pass");
  EXPECT_EQ(body.at("candidate"), "class ModelNew: pass");
  EXPECT_EQ(body.at("seed"), 5);
  EXPECT_EQ(body.at("mode"), "interpret");
  EXPECT_EQ(body.at("measure_performance"), false);
}

}  // namespace
}  // namespace tritonforge::orchestrate
