#include "orchestrate/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>

#include "unit/orchestrate/peers_fixture.h"

namespace tritonforge::orchestrate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  route("GET", "/v2/status", [](const net::Request&) { return net::Response::json({{"trajectories", 0}}); });
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

// A bench's leases are named after problems, whose ids are whatever their file says.
TEST_F(PeersTest, ALeaseIsFoundWhateverItsIdHolds) {
  const std::string id = "lease-bench-rl-level1/19 ReLU?100%#";
  std::vector<std::string> heard;
  for (const char* what : {"commit", "release", "discard"}) {
    route("POST", fmt::format("/v2/leases/{{id}}/{}", what), [&, what](const net::Request& request) {
      heard.push_back(fmt::format("{} {}", what, request.parameters.at("id")));
      return net::Response::json(Json::object());
    });
  }
  route("GET", "/v2/progress", [&](const net::Request& request) {
    heard.push_back("progress " + request.query.at("groups"));
    return net::Response::json(to_json(GroupProgress{}));
  });
  http.start();
  const Buffer buffer(role("buffer"));
  buffer.commit(id, 0);
  buffer.release(id);
  buffer.progress(id);
  Lease failed;
  failed.id = id;
  failed.figures.trajectories = failed.figures.failed = 1;
  EXPECT_THROW(buffer.require_results({failed}, "bench rl"), Error);
  EXPECT_THAT(heard, ElementsAre("commit " + id, "release " + id, "progress " + id, "discard " + id));
}

// Without any patience: each round must find one more, and the first counts.
TEST_F(PeersTest, GroupsAreWaitedForAsLongAsTrajectoriesEnd) {
  std::atomic<int> rounds{0}, finished{0};
  route("POST", "/v2/groups/lease", [&](const net::Request&) {
    if (++rounds < 9) return net::Response::error(Error(ErrorKind::kTimeout, "1 of 2 groups complete"));
    return net::Response::json(to_json(Lease{}));
  });
  route("GET", "/v2/status", [&](const net::Request&) {
    return net::Response::json({{"trajectories", finished < 5 ? ++finished : finished.load()}});
  });
  http.start();
  const Buffer buffer(role("buffer"), /*stalled_after_s=*/0);
  try {
    buffer.lease({.lease_id = "l"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("no trajectory ended"));
    EXPECT_THAT(error.what(), HasSubstr("1 of 2 groups complete"));
  }
  EXPECT_EQ(rounds, 6);  // five that found one more, and one that did not
}

TEST_F(PeersTest, AKeyThatIsRefusedEndsTheWaitWithItsLine) {
  route("POST", "/v2/groups/lease",
        [](const net::Request&) { return net::Response::error(Error(ErrorKind::kTimeout, "0 of 2 groups complete")); });
  route("GET", "/v2/status", [](const net::Request&) {
    return net::Response::json({{"trajectories", 0}, {"refused_key", "http://e/generate answered 401: no"}});
  });
  http.start();
  const Buffer buffer(role("buffer"), SupervisorOptions().stalled_after_s, /*key_patience_s=*/0);
  try {
    buffer.lease({.lease_id = "l"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "http://e/generate answered 401: no");
  }
}

TEST_F(PeersTest, AGroupOfWhichNothingCountsIsNoResultAndIsForgotten) {
  std::vector<std::string> discarded;
  route("POST", "/v2/leases/{id}/discard", [&](const net::Request& request) {
    discarded.push_back(request.parameters.at("id"));
    return net::Response::json(Json::object());
  });
  http.start();
  const Buffer buffer(role("buffer"));
  Lease failed;
  failed.id = "rl-step-3";
  failed.figures.trajectories = failed.figures.failed = 4;
  Trajectory sample;
  sample.turns.emplace_back().verdict.fault = Fault::kEngineFailed;
  sample.turns.back().verdict.diagnostics = "the context of 64 leaves no room";
  failed.groups.push_back({"g", "p", /*replayed=*/false, failed.figures, {sample}});
  Lease fine = failed;
  fine.figures.failed = 3;
  buffer.require_results({failed, fine}, "bench base");  // something counts
  EXPECT_TRUE(discarded.empty());
  try {
    buffer.require_results({failed}, "rl step 3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rl step 3: every trajectory failed"));
    EXPECT_THAT(error.what(), HasSubstr("engine_failed: the context of 64 leaves no room"));
  }
  EXPECT_THAT(discarded, ElementsAre("rl-step-3"));
}

// A trainer that has `done` steps, and says 409 to whoever counts on others.
class TrainerTest : public PeersTest {
 protected:
  TrainerTest() {
    route("GET", "/status", [this](const net::Request&) {
      return net::Response::json({{"step", done.load()}, {"checkpoint_step", -1}});
    });
    route("POST", "/step", [this](const net::Request& request) {
      requests.push_back(request);
      const bool binary = request.headers.at("content-type") == kSequencesContentType;
      const int64_t step = binary ? sft_step_from_binary(request.body).step : request.json().at("step").get<int64_t>();
      if (step != done && step != done + 1) return elsewhere();
      done = step;
      if (dies_after == step) {
        dies_after = 0;
        done = checkpoint.load();
        return elsewhere();
      }
      return net::Response::json(to_json(trained(step)));
    });
    on_weights("/publish_weights", [this](const Json& body) {
      published_to.push_back(body.at("to"));
      return to_json(PublishedWeights{"/w", body.at("version"), {{"norm", "1"}}});
    });
    on_weights("/save", [this](const Json&) -> Json {
      checkpoint = done.load();
      return {{"path", "/c"}, {"step", done.load()}, {"uncommitted_leases", uncommitted > 0 ? uncommitted-- : 0}};
    });
    on_weights("/export", [this](const Json& body) -> Json {
      exported.push_back(done);
      return {{"path", body.at("folder")}, {"step", done.load()}};
    });
  }
  net::Response elsewhere() {
    return net::Response::error(Error(ErrorKind::kConflict, "out of turn"), {{"expected_step", done + 1}});
  }
  void on_weights(const std::string& path, std::function<Json(const Json&)> answer) {
    route("POST", path, [this, path, answer](const net::Request& request) {
      const Json body = request.json();
      if (dies_at == path) {
        dies_at.clear();
        done = checkpoint.load();
      }
      if (body.at("step").get<int64_t>() != done) return elsewhere();
      return net::Response::json(answer(body));
    });
  }
  // What a stage does: trains up to `last`, then saves and exports.
  std::vector<int64_t> run_to(Trainer& trainer, int64_t last) {
    std::vector<int64_t> taken;
    trainer.go_on([&](int64_t next) {
      trainer.publish(1 + trainer.steps());
      for (int64_t step = next; step <= last; ++step) {
        trainer.step({.kind = StepKind::kRl, .step = step, .lease_id = "l", .buffer = "http://b:1", .sequences = {}});
        taken.push_back(step);
      }
      trainer.finish("/model");
    });
    return taken;
  }
  std::atomic<int64_t> done{0}, checkpoint{0}, dies_after{0};
  std::string dies_at;  // a path: it died just before it was asked
  int64_t uncommitted = 0;
  std::vector<net::Request> requests;
  std::vector<int64_t> exported;
  std::vector<std::string> published_to;
};

TEST_F(TrainerTest, PublishesInTheWayThatThePlacementSays) {
  http.start();
  Trainer(role("trainer")).publish(1);
  Trainer(role("trainer"), "group").publish(2);
  EXPECT_THAT(published_to, ElementsAre("shm", "group"));
}

TEST_F(TrainerTest, GetsSftInBinaryAndRlByName) {
  http.start();
  Trainer trainer(role("trainer"));
  EXPECT_EQ(trainer.status().step, 0);
  const TrainSequence taught{{4, 5}, {0, 1}, {0, 0}, {0, 0}, {-1, -1}, "", 1.0};
  EXPECT_EQ(trainer.step({.kind = StepKind::kSft, .step = 1, .sequences = {taught}}).metrics, trained(1).metrics);
  trainer.step({.kind = StepKind::kRl,
                .step = 2,
                .lease_id = "rl-step-2",
                .buffer = "http://b:1",
                .weight_version = 2,
                .sequences = {}});
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(sft_step_from_binary(requests[0].body).sequences, std::vector<TrainSequence>{taught});
  EXPECT_EQ(step_request_from_json(requests[1].json()).lease_id, "rl-step-2");
  EXPECT_EQ(step_request_from_json(requests[1].json()).weight_version, 2);
  EXPECT_EQ(trainer.publish(3).version, 3);
}

TEST_F(TrainerTest, ThatDiedWhileItWasIdleTrainsItsLostStepsAgain) {
  http.start();
  Trainer trainer(role("trainer"));
  dies_after = 3;  // its answer to step 3 never counts; it is back at its start
  EXPECT_THAT(run_to(trainer, 4), ElementsAre(1, 2, 1, 2, 3, 4));
  EXPECT_THAT(exported, ElementsAre(4));
}

TEST_F(TrainerTest, ThatDiedBeforeAPublicationASaveOrAnExportGivesNoOlderWeights) {
  http.start();
  for (const char* path : {"/publish_weights", "/save", "/export"}) {
    done = checkpoint = 2;
    exported.clear();
    bool died = false;
    Trainer trainer(role("trainer"));
    trainer.go_on([&](int64_t next) {
      for (int64_t step = next; step <= 5; ++step) {
        trainer.step({.kind = StepKind::kSft, .step = step, .sequences = {}});
        if (step == 5 && !std::exchange(died, true)) dies_at = path;
      }
      trainer.publish(6);
      trainer.finish("/model");
    });
    EXPECT_THAT(exported, ElementsAre(5)) << path;
    EXPECT_EQ(trainer.steps(), 5) << path;
    supervisor.stop("trainer");
  }
}

TEST_F(TrainerTest, IsAskedToSaveUntilTheBufferTookEveryLease) {
  http.start();
  uncommitted = 2;
  Trainer trainer(role("trainer"));
  run_to(trainer, 1);
  EXPECT_EQ(uncommitted, 0);
}

TEST_F(PeersTest, AStepThatIsRefusedIsAnErrorAndNoRollback) {
  std::atomic<int> asked{0};
  route("GET", "/status",
        [](const net::Request&) { return net::Response::json({{"step", 0}, {"checkpoint_step", -1}}); });
  route("POST", "/step", [&](const net::Request&) {
    ++asked;
    return net::Response::error(Error(ErrorKind::kConflict, "lease 'l' was trained on"), {{"expected_step", 1}});
  });
  http.start();
  Trainer trainer(role("trainer"));
  trainer.status();
  EXPECT_THROW(trainer.step({.kind = StepKind::kSft, .step = 1, .sequences = {}}), Error);
  EXPECT_EQ(asked, 1);
}

TEST_F(PeersTest, AnErrorOfTheTrainersOwnIsTriedAgain) {
  std::atomic<int> asked{0};
  route("POST", "/step", [&](const net::Request&) {
    if (++asked < 3) return net::Response::error(Error(ErrorKind::kInternal, "CUDA out of memory"));
    return net::Response::json(to_json(trained(1)));
  });
  http.start();
  Trainer trainer(role("trainer"));
  EXPECT_EQ(trainer.step({.kind = StepKind::kSft, .step = 1, .sequences = {}}).metrics.step, 1);
  asked = -100;
  EXPECT_THROW(trainer.step({.kind = StepKind::kSft, .step = 2, .sequences = {}}), Error);
  EXPECT_EQ(asked, -97);
}

// Of step 4 the trainer takes nothing ahead; before step 6 it dies and forgets what it had.
TEST_F(PeersTest, ATrainerGetsTheNextStepsSequencesAheadAndWholeWhereItHasThemNot) {
  std::mutex mutex;
  std::set<int64_t> ahead;
  std::vector<std::string> order;
  route("POST", "/prepare", [&](const net::Request& request) {
    const int64_t step = sft_step_from_binary(request.body).step;
    const std::lock_guard lock(mutex);
    if (step == 4) return net::Response::error(Error(ErrorKind::kUnavailable, "no room"));
    ahead.insert(step);
    return net::Response::json({{"step", step}});
  });
  route("POST", "/step", [&](const net::Request& request) {
    const bool whole = request.headers.at("content-type") == kSequencesContentType;
    const int64_t step = whole ? sft_step_from_binary(request.body).step : request.json().at("step").get<int64_t>();
    const std::lock_guard lock(mutex);
    if (step == 6) ahead.clear();
    order.push_back(fmt::format("{} {}", step, whole ? "whole" : "by name"));
    if (!whole && !ahead.contains(step)) return net::Response::error(Error(ErrorKind::kNotFound, "none came ahead"));
    return net::Response::json(to_json(trained(step)));
  });
  http.start();
  Trainer trainer(role("trainer"));
  const auto request_of = [](int64_t step) {
    return StepRequest{.step = step, .sequences = {{{4, step}, {0, 1}, {0, 0}, {0, 0}, {-1, -1}, "", 1.0}}};
  };
  for (int64_t step = 1; step <= 6; ++step) EXPECT_EQ(trainer.step_of_many(step, 6, request_of).metrics.step, step);
  EXPECT_EQ(trainer.steps(), 6);
  EXPECT_THAT(order, ElementsAre("1 whole", "2 by name", "3 by name", "4 whole", "5 by name", "6 by name", "6 whole"));
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
  options.mode = EvaluationMode::kInterpret;
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
