#include "rollout/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "base/filesystem.h"
#include "mock_peers.h"

namespace tritonforge::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { restart(); }
  void restart() {
    server.reset();
    service.reset();
    ServiceOptions options;
    options.database = folder.path() / "buffer.sqlite";
    options.peers = mock.options();
    options.concurrency = 8;
    service = std::make_unique<RolloutService>(options, std::make_unique<ByteCodec>());
    server = std::make_unique<BufferServer>(*service, net::ServerOptions{.worker_threads = 8});
    server->start();
  }
  std::pair<int, Json> call(const std::string& method, const std::string& path, const Json& body = Json::object()) {
    const auto response = client.request(method, server->url() + path, method == "GET" ? "" : body.dump());
    if (!response.ok()) {
      ADD_FAILURE() << response.error().what();
      return {0, {}};
    }
    last_text = response.value().body;
    return {response.value().status, Json::parse(response.value().body)};
  }
  static Json rollouts(const std::vector<std::string>& ids, int samples = 4) {
    Json groups = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      groups.push_back({{"group_id", ids[i]},
                        {"problem_id", "p" + ids[i]},
                        {"problem_source", "class Model: pass"},
                        {"n_samples", samples},
                        {"seed", 7 + i}});
    }
    return {{"groups", groups},
            {"options", {{"prompt", "minimal"}, {"max_turns", 2}, {"sampling", {{"max_new_tokens", 400}}}}}};
  }
  static Json lease(const std::string& id, int count) {
    return {{"lease_id", id}, {"count", count}, {"timeout_s", 20}};
  }
  // Half of the answers are right, by what was sampled.
  void judge_by_text() {
    mock.judge = [](const std::string& code) {
      return code.size() % 2 == 0 ? MockPeers::correct() : MockPeers::failed();
    };
    mock.engine = [](const Json& body) {
      const auto seed = body["sampling_params"]["sampling_seed"].get<uint64_t>();
      return MockPeers::reply(body, answer_with(std::string(seed % 2, 'x') + "y"), "stop");
    };
  }

  TemporaryFolder folder{"tf-rollout"};
  MockPeers mock;
  net::HttpClient client;
  std::unique_ptr<RolloutService> service;
  std::unique_ptr<BufferServer> server;
  std::string last_text;
};

TEST_F(ServerTest, WithoutATokenizerGroupsOfTokensAreRefusedAndNotSpent) {
  const auto start = [&](size_t concurrency, std::unique_ptr<ChatCodec> codec) {
    server.reset();
    service.reset();
    const ServiceOptions options{
        .database = folder.path() / "no-tokenizer.sqlite", .peers = mock.options(), .concurrency = concurrency};
    service = std::make_unique<RolloutService>(options, std::move(codec));
    server = std::make_unique<BufferServer>(*service, net::ServerOptions{.worker_threads = 8});
    server->start();
  };
  judge_by_text();
  start(4, no_chat_codec());
  const auto [status, reply] = call("POST", "/v2/rollouts", rollouts({"a"}));
  EXPECT_EQ(status, 400);
  EXPECT_EQ(reply["error"]["message"],
            "there is no tokenizer here (--tokenizer): only chat servers can be asked (chat_model)");

  start(0, no_chat_codec());  // generators elsewhere have one
  EXPECT_EQ(call("POST", "/v2/rollouts", rollouts({"a"})).second["accepted"], Json({"a"}));
  EXPECT_THROW(start(4, no_chat_codec()), Error);  // in place of failing what waits
  start(4, std::make_unique<ByteCodec>());
  const auto leased = call("POST", "/v2/groups/lease", lease("l", 1)).second;
  EXPECT_EQ(leased["figures"]["failed"], 0);
}

TEST_F(ServerTest, GeneratesLeasesAndCommits) {
  judge_by_text();
  auto [status, reply] = call("POST", "/v2/rollouts", rollouts({"a", "b", "c"}));
  EXPECT_EQ(status, 200);
  EXPECT_THAT(reply["accepted"], SizeIs(3));
  std::tie(status, reply) = call("POST", "/v2/rollouts", rollouts({"c", "d"}));
  EXPECT_THAT(reply["accepted"], ElementsAre("d"));
  EXPECT_THAT(reply["known"], ElementsAre("c"));

  std::tie(status, reply) = call("POST", "/v2/groups/lease",
                                 {{"lease_id", "l0"}, {"group_ids", {"c", "a"}}, {"timeout_s", 20}});
  ASSERT_EQ(status, 200) << reply;
  EXPECT_EQ(reply["groups"][0]["group_id"], "c");
  EXPECT_EQ(reply["groups"][1]["group_id"], "a");
  const std::string granted = last_text;
  const Lease lease_of_two = lease_from_json(reply);
  EXPECT_EQ(lease_of_two.figures.trajectories, 8);
  EXPECT_EQ(lease_of_two.groups[0].figures.trajectories, 4);
  EXPECT_THAT(lease_of_two.groups[0].samples, SizeIs(1));
  EXPECT_THAT(last_text, testing::Not(HasSubstr("response_tokens\":[")));  // tokens are the trainer's alone
  call("POST", "/v2/groups/lease", {{"lease_id", "l0"}, {"group_ids", {"c", "a"}}});
  EXPECT_EQ(last_text, granted);
  reply = call("GET", "/v2/leases/l0").second;
  ASSERT_THAT(reply["groups"][0]["trajectories"], SizeIs(4));
  double sum = 0;
  for (const Json& json : reply["groups"][0]["trajectories"]) {
    const Trajectory t = trajectory_from_json(json);
    EXPECT_EQ(t.advantages.size(), t.turns.size());
    sum += t.advantages[0];
  }
  EXPECT_NEAR(sum, 0, 1e-6);

  const std::string first = last_text;
  call("GET", "/v2/leases/l0");
  EXPECT_EQ(last_text, first);
  restart();
  call("GET", "/v2/leases/l0");
  EXPECT_EQ(last_text, first);

  std::tie(status, reply) = call("POST", "/v2/groups/lease", {{"lease_id", "l1"}, {"group_ids", {"a"}}});
  EXPECT_EQ(status, 409);
  EXPECT_THAT(reply["error"]["message"].get<std::string>(), HasSubstr("l0"));
  EXPECT_EQ(call("POST", "/v2/leases/l0/commit", {{"step", 1}}).first, 200);
  EXPECT_EQ(call("POST", "/v2/leases/l0/commit", {{"step", 1}}).first, 200);
  // Its tokens are for nobody any more; whoever drives the loop reads its figures again.
  EXPECT_EQ(call("GET", "/v2/leases/l0").first, 409);
  EXPECT_EQ(call("POST", "/v2/groups/lease", {{"lease_id", "l0"}, {"group_ids", {"c", "a"}}}).first, 200);
  EXPECT_EQ(last_text, granted);
  EXPECT_EQ(call("POST", "/v2/groups/lease", {{"lease_id", "l0"}, {"group_ids", {"a", "c"}}}).first, 409);
  EXPECT_EQ(call("POST", "/v2/leases/l0/release").first, 409);
  EXPECT_EQ(call("POST", "/v2/leases/none/commit", {{"step", 1}}).first, 404);

  std::tie(status, reply) = call("POST", "/v2/groups/lease", lease("l2", 2));
  ASSERT_EQ(status, 200);
  EXPECT_EQ(reply["groups"][0]["group_id"], "b");
  EXPECT_EQ(reply["groups"][1]["group_id"], "d");
  EXPECT_EQ(call("POST", "/v2/leases/l2/release").first, 200);
  std::tie(status, reply) = call("POST", "/v2/groups/lease", lease("l3", 1));
  EXPECT_EQ(reply["groups"][0]["group_id"], "b");

  std::tie(status, reply) = call("GET", "/v2/status");
  EXPECT_EQ(reply["groups"]["committed"], 2);
  EXPECT_EQ(reply["groups"]["leased"], 1);
  EXPECT_EQ(reply["groups"]["complete"], 1);
  EXPECT_EQ(reply["trajectories"], 16);
}

TEST_F(ServerTest, WhatIsDiscardedIsMadeAnew) {
  judge_by_text();
  call("POST", "/v2/rollouts", rollouts({"a", "b"}));
  const Json request = {{"lease_id", "l"}, {"group_ids", {"a"}}, {"timeout_s", 20}};
  ASSERT_EQ(call("POST", "/v2/groups/lease", request).first, 200);
  for (int repeat = 0; repeat < 2; ++repeat) EXPECT_EQ(call("POST", "/v2/leases/l/discard").first, 200);
  EXPECT_EQ(call("POST", "/v2/groups/lease", request).first, 404);
  EXPECT_THAT(call("POST", "/v2/rollouts", rollouts({"a", "b"})).second["accepted"], ElementsAre("a"));
  EXPECT_EQ(call("POST", "/v2/groups/lease", request).first, 200);
  EXPECT_EQ(call("GET", "/v2/status").second["trajectories"], 8);
}

TEST_F(ServerTest, ATrajectoryThatNoDiskWouldTakeIsSetAside) {
  mock.engine = [](const Json& body) {
    Json reply = Json::parse(MockPeers::reply(body, answer_with("x"), "stop").body);
    reply["meta_info"]["output_token_logprobs"][0][0] = -1e39;  // no float
    return net::Response::json(reply);
  };
  call("POST", "/v2/rollouts", rollouts({"a"}, 2));
  const auto [status, reply] = call("POST", "/v2/groups/lease", lease("l", 1));
  ASSERT_EQ(status, 200);
  EXPECT_EQ(reply["dropped"][0]["reason"], "all_failed");
  EXPECT_EQ(call("GET", "/v2/status").second["unwritten"], 0);
  EXPECT_THAT(last_text.empty() ? "" : call("GET", "/v2/groups/a").second.dump(), HasSubstr("log-probability -inf"));
}

TEST_F(ServerTest, TheTrainersBinaryFormSaysWhatTheJsonSays) {
  judge_by_text();
  call("POST", "/v2/rollouts", rollouts({"a", "b"}));
  ASSERT_EQ(call("POST", "/v2/groups/lease", lease("l", 2)).first, 200);
  const SequenceBatch from_json = batch_of_lease_json(call("GET", "/v2/leases/l").second);
  EXPECT_EQ(from_json.figures.trajectories, 8);
  for (const std::string& accept : {std::string(kSequencesContentType), std::string("application/octet-stream")}) {
    const net::ClientOptions options{.headers = {{"accept", accept}}};
    const auto reply = client.request("GET", server->url() + "/v2/leases/l", "", "", &options).value();
    EXPECT_EQ(reply.content_type, kSequencesContentType);
    EXPECT_EQ(batch_from_binary(reply.body), from_json);
  }
  call("POST", "/v2/leases/l/commit", {{"step", 1}});
  const net::ClientOptions options{.headers = {{"accept", kSequencesContentType}}};
  EXPECT_EQ(client.request("GET", server->url() + "/v2/leases/l", "", "", &options).value().status, 409);
}

TEST_F(ServerTest, AsManyTranscriptsAsAreAskedFor) {
  judge_by_text();
  call("POST", "/v2/rollouts", rollouts({"a"}));
  for (const int samples : {0, 2, 9}) {
    const auto [status, reply] = call("POST", "/v2/groups/lease",
                                      {{"lease_id", "l"}, {"count", 1}, {"samples", samples}});
    ASSERT_EQ(status, 200);
    EXPECT_THAT(reply["groups"][0]["samples"], SizeIs(std::min(samples, 4)));
  }
  EXPECT_EQ(call("POST", "/v2/groups/lease", {{"lease_id", "l"}, {"samples", -1}}).first, 400);
}

TEST_F(ServerTest, ALeaseWaitsForItsGroupsAndSaysWhatIsMissing) {
  auto waiting = std::async(std::launch::async, [&] {
    return net::HttpClient().post_json(server->url() + "/v2/groups/lease", lease("w", 1)).value();
  });
  call("POST", "/v2/rollouts", rollouts({"a"}));
  EXPECT_EQ(waiting.get()["groups"][0]["group_id"], "a");
  const auto [status, reply] = call("POST", "/v2/groups/lease", {{"lease_id", "x"}, {"count", 3}, {"timeout_s", 0}});
  EXPECT_EQ(status, 504);
  EXPECT_THAT(reply["error"]["message"].get<std::string>(), HasSubstr("0 of 3 groups complete"));
  EXPECT_EQ(call("POST", "/v2/groups/lease", {{"lease_id", "y"}, {"group_ids", {"nope"}}}).first, 404);
}

TEST_F(ServerTest, ZeroVarianceIsGivenAndReported) {
  call("POST", "/v2/rollouts", rollouts({"a"}));  // all samples fail alike
  const auto [status, reply] = call("POST", "/v2/groups/lease", lease("l", 1));
  ASSERT_EQ(status, 200);
  EXPECT_EQ(reply["dropped"], Json::array({{{"group_id", "a"}, {"reason", "zero_variance"}}}));
  const Json whole = call("GET", "/v2/leases/l").second;
  EXPECT_EQ(whole["dropped"], reply["dropped"]);
  for (const Json& t : whole["groups"][0]["trajectories"]) EXPECT_EQ(t["advantages"], Json({0.0, 0.0}));
}

TEST_F(ServerTest, AGroupThatFailedWholeIsGivenAndReported) {
  mock.evaluator_status = 400;
  call("POST", "/v2/rollouts", rollouts({"a"}));
  const auto [status, reply] = call("POST", "/v2/groups/lease", lease("l", 1));
  ASSERT_EQ(status, 200);
  EXPECT_EQ(reply["dropped"][0]["reason"], "all_failed");
}

TEST_F(ServerTest, ARestartMakesOnlyTheMissingSamplesWithTheSameSeeds) {
  std::promise<void> gate;
  auto open = gate.get_future().share();
  std::atomic<int> answered{0};
  std::atomic<bool> hold{true};
  mock.engine = [&](const Json& body) {
    const int mine = answered++;
    if (hold && mine >= 4) {
      open.wait();
      return net::Response::error(Error(ErrorKind::kUnavailable, "gone"));
    }
    return MockPeers::reply(body, answer_with("seed " + body["sampling_params"]["sampling_seed"].dump()), "stop");
  };
  mock.judge = [](const std::string&) { return MockPeers::correct(); };  // one turn each
  call("POST", "/v2/rollouts", rollouts({"a"}, 8));
  const Deadline deadline = Deadline::after(30);
  while (call("GET", "/v2/status").second["trajectories"] != 4 || answered < 8) ASSERT_FALSE(deadline.expired());
  std::vector<Json> before;
  const Json listed = call("GET", "/v2/trajectories").second;
  for (const Json& t : listed["trajectories"]) before.push_back(t);
  EXPECT_FALSE(service->stop(0.1));
  server->stop(0.5);
  hold = false;
  gate.set_value();
  restart();
  ASSERT_EQ(call("POST", "/v2/groups/lease", lease("l", 1)).first, 200);
  const Json reply = call("GET", "/v2/leases/l").second;
  ASSERT_THAT(reply["groups"][0]["trajectories"], SizeIs(8));
  EXPECT_EQ(answered, 12);
  std::map<std::string, Json> by_id;
  for (const Json& t : reply["groups"][0]["trajectories"]) by_id[t["id"]] = t;
  EXPECT_EQ(by_id.size(), 8u);
  for (const Json& t : before)
    EXPECT_EQ(by_id[t["id"]]["turns"][0]["response_tokens"], t["turns"][0]["response_tokens"]);
  std::set<uint64_t> seeds;
  std::lock_guard lock(mock.mutex);
  for (const Json& r : mock.requests) seeds.insert(r["sampling_params"]["sampling_seed"].get<uint64_t>());
  EXPECT_EQ(seeds.size(), 8u);  // the four that were asked for twice had the same seeds
}

TEST_F(ServerTest, TrajectoriesNewestFirstWithFeedback) {
  call("POST", "/v2/rollouts", rollouts({"a"}));
  call("POST", "/v2/groups/lease", lease("l", 1));
  auto [status, reply] = call("GET", "/v2/trajectories?limit=3");
  ASSERT_THAT(reply["trajectories"], SizeIs(3));
  EXPECT_THAT(reply["trajectories"][0]["turns"][0]["feedback"].get<std::string>(), HasSubstr("output 0 is wrong"));
  const std::string third = reply["trajectories"][2]["id"];
  std::tie(status, reply) = call("GET", "/v2/trajectories?after=" + third);
  EXPECT_THAT(reply["trajectories"], SizeIs(2));
  EXPECT_EQ(call("GET", "/v2/trajectories?limit=x").first, 400);
  EXPECT_EQ(call("GET", "/v2/groups/a").second["reason"], "zero_variance");
  EXPECT_EQ(call("GET", "/v2/groups/zz").first, 404);
}

TEST_F(ServerTest, WrongUseIsNamed) {
  Json body = rollouts({"a"});
  body["options"]["rewrd"] = "seed";
  EXPECT_THAT(call("POST", "/v2/rollouts", body).second["error"]["message"].get<std::string>(), HasSubstr("'reward'"));
  body = rollouts({"a"});
  body["options"]["reward"] = "sed";
  EXPECT_EQ(call("POST", "/v2/rollouts", body).first, 400);
  body = rollouts({"a"});
  body["groups"][0].erase("problem_source");
  EXPECT_THAT(call("POST", "/v2/rollouts", body).second["error"]["message"].get<std::string>(),
              HasSubstr("problem_source"));
}

TEST_F(ServerTest, HealthAndMetrics) {
  EXPECT_EQ(call("GET", "/health").second["status"], "green");
  const auto metrics = client.get(server->url() + "/metrics");
  EXPECT_THAT(metrics.value().body, HasSubstr("tritonforge_buffer_trajectories"));
}

TEST_F(ServerTest, AServerThatRefusesItsKeyIsSaidAndLosesNoGroup) {
  std::atomic<bool> mended{false};
  mock.engine = [&](const Json& body) {
    if (!mended) return net::Response::json({{"error", {{"message", "wrong key"}}}}, 401);
    return MockPeers::reply(body, answer_with("x"), "stop");
  };
  call("POST", "/v2/rollouts", rollouts({"a"}));
  const Deadline deadline = Deadline::after(20);
  Json status;
  do status = call("GET", "/v2/status").second;
  while (status["refused_key"].get<std::string>().empty() && !deadline.expired());
  EXPECT_THAT(status["refused_key"].get<std::string>(), HasSubstr("/generate answered 401: wrong key"));
  EXPECT_EQ(status["trajectories"], 0);
  const Json health = call("GET", "/health").second;
  EXPECT_EQ(health["status"], "yellow");
  EXPECT_THAT(health["detail"].get<std::string>(), HasSubstr("wrong key"));

  mended = true;
  EXPECT_EQ(call("POST", "/v2/groups/lease", lease("l", 1)).second["figures"]["failed"], 0);
  EXPECT_EQ(call("GET", "/health").second["status"], "green");

  // So does a generator process say it, of an engine that only it asks.
  call("POST", "/v2/work", {{"worker", "w"}, {"refused_key", "http://e answered 401"}});
  EXPECT_EQ(call("GET", "/v2/status").second["refused_key"], "http://e answered 401");
  call("POST", "/v2/work", {{"worker", "w"}});
  EXPECT_EQ(call("GET", "/v2/status").second["refused_key"], "");
}

TEST_F(ServerTest, TheOriginalsEndpoints) {
  judge_by_text();
  const fs::path prompts = folder.path() / "prompts.jsonl";
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    lines += Json({{"prompt", {{{"role", "user"}, {"content", "do it"}}}},
                   {"label", "class Model: pass"},
                   {"extra_info", {{"level", 1}}},
                   {"instance_id", "lv1_" + std::to_string(i)}})
                 .dump() +
             "\n";
  }
  write_file_atomic(prompts, lines);
  const Json payload = {{"task_type", "kernelbench_multiturn"},
                        {"input_file", prompts.string()},
                        {"num_epoch", "1"},
                        {"num_repeat_per_sample", "4"},
                        {"num_process", "100"},
                        {"max_turns", "2"},
                        {"gamma", "0.4"},
                        {"max_tokens", "300"},
                        {"sampling_params", {{"max_tokens", "300"}, {"temperature", "1.0"}, {"top_p", 1}}},
                        {"remote_engine_url", mock.options().router},
                        {"remote_eval_server_url", mock.options().evaluator},
                        {"skip_instance_ids", {"lv1_2"}}};
  auto [status, reply] = call("POST", "/start_rollout", payload);
  EXPECT_EQ(status, 200) << reply;
  EXPECT_TRUE(reply["success"]);
  std::tie(status, reply) = call("POST", "/buffer/read", {{"batch_size", 8}, {"timeout", 20}});
  ASSERT_TRUE(reply["success"]) << reply;
  ASSERT_THAT(reply["data"]["data"], SizeIs(8));
  const Json& item = reply["data"]["data"][0];
  for (const char* key :
       {"uid", "instance_id", "messages", "reward", "raw_reward", "extra_info", "execution_details", "multi_turn_data"})
    EXPECT_TRUE(item.contains(key)) << key;
  EXPECT_EQ(item["messages"][0]["content"], "do it");
  EXPECT_EQ(item["extra_info"]["level"], 1);
  EXPECT_EQ(reply["data"]["meta_info"]["num_groups"], 2);
  EXPECT_THAT(item["extra_info"]["timestamp"].get<std::string>(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+"));
  EXPECT_EQ(item["extra_info"]["round_number"], item["multi_turn_data"]["history"].size());
  std::tie(status, reply) = call("POST", "/get_rollout_data");
  EXPECT_FALSE(reply["success"]);
  EXPECT_THAT(reply["data"]["data"], SizeIs(0));
  EXPECT_EQ(call("POST", "/start_rollout", {{"task_type", "kernelbnch"}, {"input_file", "x"}}).first, 400);
}

// Of a prompt file: NAME0, NAME1, ...
std::string prompt_lines(const std::string& name, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += Json({{"prompt", {{{"role", "user"}, {"content", "do it"}}}},
                   {"label", "class Model: pass"},
                   {"instance_id", name + std::to_string(i)}})
                 .dump() +
             "\n";
  }
  return lines;
}

TEST_F(ServerTest, AThousandPassesBeginOneAfterAnotherAlsoAfterARestart) {
  judge_by_text();
  const fs::path prompts = folder.path() / "prompts.jsonl";
  write_file_atomic(prompts, prompt_lines("p", 12));
  const Json payload = {{"task_type", "kernelbench"},
                        {"input_file", prompts.string()},
                        {"num_epoch", "1000"},
                        {"num_repeat_per_sample", "4"},
                        {"max_tokens", "300"}};
  const auto groups = [&] {
    int64_t all = 0;
    const Json by_state = call("GET", "/v2/status").second["groups"];
    for (const auto& [state, count] : by_state.items()) all += count.get<int64_t>();
    return all;
  };
  // 48 samples a pass. Of the original's 200 problems x 8 a thousand passes would be more than may wait.
  auto [status, reply] = call("POST", "/start_rollout", payload);
  EXPECT_EQ(status, 200) << reply;
  EXPECT_EQ(reply["data"]["meta_info"]["num_groups"], 12);
  const auto read_until = [&](size_t items) {
    size_t held = 0;
    while (held < items) {
      const Json batch = call("POST", "/buffer/read", {{"batch_size", 48}, {"timeout", 60}}).second;
      ASSERT_TRUE(batch["success"].get<bool>()) << batch;
      held += batch["data"]["data"].size();
    }
  };
  read_until(3 * 48);
  EXPECT_GE(groups(), 36);
  restart();
  const int64_t before = groups();
  read_until(static_cast<size_t>(before) * 4);  // more than what is there but for what was read already
  EXPECT_GT(groups(), before);
  EXPECT_LT(groups(), before + 30 * 12);
}

TEST_F(ServerTest, PassesOfASecondRolloutBeginBesideThoseOfTheFirstAlsoAfterARestart) {
  judge_by_text();
  std::promise<void> begun;  // no group ends before both rollouts have begun
  mock.engine = [answer = mock.engine, both = begun.get_future().share()](const Json& body) {
    both.wait();
    return answer(body);
  };
  const auto payload_of = [&](const std::string& name, const std::vector<std::string>& skipped) {
    const fs::path prompts = folder.path() / (name + ".jsonl");
    write_file_atomic(prompts, prompt_lines(name, 3));
    return Json{
        {"task_type", "kernelbench"}, {"input_file", prompts.string()}, {"num_epoch", 6}, {"num_repeat_per_sample", 2},
        {"max_tokens", 300},          {"skip_instance_ids", skipped}};
  };
  EXPECT_EQ(call("POST", "/start_rollout", payload_of("a", {})).first, 200);
  EXPECT_EQ(call("POST", "/start_rollout", payload_of("b", {})).first, 200);
  begun.set_value();
  restart();
  // The second one's trainer starts again: it takes the place of what it asked for, where it is.
  EXPECT_EQ(call("POST", "/start_rollout", payload_of("b", {"b2"})).first, 200);
  std::map<std::string, int> items;
  const auto all_there = [&] {
    return std::ranges::all_of(std::vector<std::string>{"a0", "a1", "a2", "b0", "b1"},
                               [&](const std::string& id) { return items[id] == 6 * 2; });
  };
  while (!all_there()) {
    const Json batch = call("POST", "/buffer/read", {{"batch_size", 2}, {"timeout", 20}}).second;
    ASSERT_TRUE(batch["success"].get<bool>()) << batch << Json(items);
    for (const Json& item : batch["data"]["data"]) ++items[item["instance_id"].get<std::string>()];
  }
  EXPECT_GE(items["b2"], 2);  // its first pass
}

TEST_F(ServerTest, AReaderThatLeftTakesNothing) {
  const net::ClientOptions impatient{.timeout_s = 0.2};
  const std::string body = Json{{"batch_size", 8}, {"timeout", 30}}.dump();
  const auto gone = client.request("POST", server->url() + "/buffer/read", body, "application/json", &impatient);
  EXPECT_FALSE(gone.ok());
  for (int i = 0; i < 8; ++i) {
    const Json item = {
        {"uid", fmt::format("u{}", i)}, {"instance_id", "one"}, {"messages", Json::array()}, {"reward", i}};
    EXPECT_EQ(call("POST", "/buffer/write", item).first, 200);
  }
  const Json batch = call("POST", "/buffer/read", {{"batch_size", 8}, {"timeout", 5}}).second;
  EXPECT_THAT(batch["data"]["data"], SizeIs(8)) << batch;
}

TEST_F(ServerTest, MoreReadersThanWorkersWaitAndTheItemsForThemAreWritten) {
  const auto read = [&] {
    return client.post_json(server->url() + "/buffer/read", {{"batch_size", 8}, {"timeout", 30}}).value();
  };
  std::vector<std::future<Json>> readers;
  for (int i = 0; i < 16; ++i) readers.push_back(std::async(std::launch::async, read));
  for (int i = 0; i < 16 * 8; ++i) {
    const Json item = {
        {"uid", fmt::format("u{}", i)}, {"instance_id", "one"}, {"messages", Json::array()}, {"reward", i}};
    EXPECT_EQ(call("POST", "/buffer/write", item).first, 200);
  }
  std::set<std::string> uids;
  for (auto& reader : readers) {
    const Json batch = reader.get();
    EXPECT_THAT(batch["data"]["data"], SizeIs(8)) << batch;
    for (const Json& item : batch["data"]["data"]) uids.insert(item["uid"]);
  }
  EXPECT_THAT(uids, SizeIs(16 * 8));
}

TEST_F(ServerTest, WrittenItemsSurviveAndRewardsAboveOneAreKept) {
  const auto item = [](int i) {
    return Json{{"uid", "u" + std::to_string(i)},
                {"instance_id", "one"},
                {"messages", Json::array()},
                {"reward", i % 2 == 0 ? 2.3 : 0.3},
                {"extra_info", Json::object()}};
  };
  for (int i = 0; i < 8; ++i) EXPECT_EQ(call("POST", "/buffer/write", item(i)).first, 200);
  call("POST", "/buffer/write", item(0));  // repeated: the same item
  restart();
  auto [status, reply] = call("GET", "/buffer/peek?batch_size=8");
  EXPECT_THAT(reply["data"]["data"], SizeIs(8));
  std::tie(status, reply) = call("POST", "/get_rollout_data", {{"batch_size", 16}});
  EXPECT_FALSE(reply["success"]);  // and nothing was taken
  std::tie(status, reply) = call("POST", "/get_rollout_data", {{"batch_size", 8}});
  ASSERT_TRUE(reply["success"]);
  EXPECT_DOUBLE_EQ(reply["data"]["meta_info"]["reward_max"], 2.3);
  EXPECT_NEAR(reply["data"]["data"][0]["reward"].get<double>(), 1, 1e-6);
  EXPECT_DOUBLE_EQ(reply["data"]["data"][0]["raw_reward"], 2.3);
  EXPECT_FALSE(call("POST", "/get_rollout_data").second["success"].get<bool>());
  EXPECT_EQ(call("GET", "/buffer/stats").second["data"]["data"][0]["total_read"], 8);
  EXPECT_EQ(call("POST", "/buffer/write", {{"uid", "x"}}).first, 400);
}

}  // namespace
}  // namespace tritonforge::rollout
