#include "train/service.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/device_lock.h"
#include "kernels/parallel.h"
#include "model/weights.h"
#include "train/server.h"
#include "unit/train/sample_model.h"
#include "unit/train/scarce.h"

namespace tritonforge::train {
namespace {

using testing::HasSubstr;

Trajectory trajectory_of(const std::string& id, double advantage, uint64_t seed) {
  Rng rng(seed);
  Trajectory trajectory;
  trajectory.id = id;
  trajectory.problem_id = "p";
  trajectory.group_id = "g";
  Turn turn;
  for (int i = 0; i < 5; ++i) turn.prompt_tokens.push_back(static_cast<int64_t>(rng.below(61)));
  for (int i = 0; i < 9; ++i) {
    turn.response_tokens.push_back(static_cast<int64_t>(rng.below(61)));
    turn.log_probs.push_back(static_cast<float>(-3 * rng.uniform()));
    turn.weight_versions.push_back(0);
  }
  turn.status = TurnStatus::kCompleted;
  trajectory.turns = {turn};
  trajectory.reward = advantage;
  trajectory.turn_returns = {advantage};
  trajectory.advantages = {advantage};
  return trajectory;
}

std::optional<ErrorKind> kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

// The buffer's side of docs/protocols.md: a lease of two trajectories, and a record of what was committed.
struct FakeBuffer {
  FakeBuffer() : http(net::ServerOptions{}) {
    http.route("GET", "/v2/leases/{id}", [this](const net::Request& request) {
      ++gets;
      if (request.parameters.at("id") == "lost")
        return net::Response::error(Error(ErrorKind::kNotFound, "no lease 'lost'"));
      const double sign = request.parameters.at("id") == "flat" ? 0.0 : 1.0;
      if (binary) {
        net::Response response;
        response.content_type = kSequencesContentType;
        response.body = to_binary(
            batch_of_groups({{{trajectory_of("a", sign, 1), trajectory_of("b", -sign, 2)}, sign != 0}}));
        return response;
      }
      return net::Response::json(
          {{"lease_id", request.parameters.at("id")},
           {"dropped", Json::array()},
           {"groups",
            {{{"group_id", "g"},
              {"trajectories", {to_json(trajectory_of("a", sign, 1)), to_json(trajectory_of("b", -sign, 2))}}}}}});
    });
    http.route("POST", "/v2/leases/{id}/commit", [this](const net::Request& request) {
      if (!accepts) return net::Response::error(Error(ErrorKind::kUnavailable, "the buffer is full"));
      if (request.parameters.at("id") == forgotten)
        return net::Response::error(Error(ErrorKind::kNotFound, "there is no lease " + forgotten));
      const std::lock_guard lock(mutex);
      committed.push_back(request.parameters.at("id") + "@" + request.json().at("step").dump());
      return net::Response::json({});
    });
    http.start();
  }
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex);
    return committed;
  }
  std::string forgotten;  // a lease that it was to commit and does not know; set while nobody asks
  std::atomic<bool> accepts{true};
  std::atomic<bool> binary{true};
  std::atomic<int> gets{0};
  std::mutex mutex;
  std::vector<std::string> committed;
  net::HttpServer http;
};

// As the orchestrator sends them: nothing was sampled.
std::vector<TrainSequence> sft_sequences(size_t count, uint64_t seed) {
  auto sequences = sample_sequences(count, seed);
  for (TrainSequence& s : sequences) {
    s.old_log_probs.assign(s.tokens.size(), 0.0f);
    s.advantages.assign(s.tokens.size(), 0.0f);
    s.weight_versions.assign(s.tokens.size(), -1);
  }
  return sequences;
}

class TrainerServiceTest : public testing::Test {
 protected:
  TrainerServiceTest() : folder("service_test") {
    model::save_model(sample_model(), folder.path() / "model");
    options.config = sample_train_config();
    options.config.model = folder.path() / "model";
    options.config.checkpoint = folder.path() / "checkpoints";
    options.config.run_id = folder.path().filename();
    options.config.buffer_timeout_s = 5;
  }
  StepRequest sft(int64_t step) {
    StepRequest request;
    request.step = step;
    request.sequences = sample_sequences(3, static_cast<uint64_t>(step));
    return request;
  }
  StepRequest rl(int64_t step, const std::string& lease) {
    return {.kind = StepKind::kRl, .step = step, .lease_id = lease, .buffer = buffer.http.url(), .sequences = {}};
  }

  TemporaryFolder folder;
  ServiceOptions options;
  FakeBuffer buffer;
};

TEST_F(TrainerServiceTest, OfAStepThatFailedHalfwayNothingIsSavedOrHandedOut) {
  options.config.optimizer_steps_per_batch = 2;
  const kernels::ThreadPool alone(1);
  TrainerService service(options);
  for (int64_t blocks = 0; service.status().at("state") != "failed"; ++blocks) {
    const Scarce memory(blocks);
    EXPECT_TRUE(kind_of([&] { service.step(sft(1)); })) << "of " << blocks << " blocks none was too few";
    service.idle();
  }
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("done");
  };
  const std::string why = "the step after 0 failed halfway: restart the trainer with --resume";
  EXPECT_EQ(refused([&] { service.save(""); }), why);
  EXPECT_EQ(refused([&] { service.save(folder.path() / "elsewhere"); }), why);
  EXPECT_EQ(refused([&] { service.publish(1, "shm"); }), why);
  EXPECT_EQ(refused([&] { service.push(1, {}, {}); }), why);
  EXPECT_EQ(refused([&] { service.export_to(folder.path() / "export"); }), why);
}

TEST_F(TrainerServiceTest, StepsFollowAndARepeatTrainsNothing) {
  TrainerService service(options);
  const auto first = service.step(sft(1));
  EXPECT_EQ(first.metrics.step, 1);
  const auto weights = service.publish(1, "shm").checksums;
  const auto again = service.step(sft(1));
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.metrics, first.metrics);
  EXPECT_EQ(service.publish(1, "shm").checksums, weights);
  for (const int64_t wrong : {0, 3, -1}) {
    try {
      service.step(sft(wrong));
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConflict);
      EXPECT_THAT(error.what(), HasSubstr("expected 2"));
    }
  }
  EXPECT_EQ(service.step(sft(2)).metrics.step, 2);
}

TEST_F(TrainerServiceTest, ALeaseIsTrainedOnceAndCommittedWithTheCheckpoint) {
  options.config.checkpoint_interval = 2;
  TrainerService service(options);
  const auto first = service.step(rl(1, "step-1")).metrics;
  EXPECT_EQ(first.batch->groups, 1);
  EXPECT_EQ(first.batch->trajectories, 2);
  EXPECT_EQ(first.batch->zero_variance_groups, 0);
  EXPECT_EQ(first.target_tokens, 18);
  EXPECT_GT(first.policy->train_rollout_logprob_abs_diff, 0);
  EXPECT_TRUE(buffer.taken().empty());
  service.idle();
  EXPECT_EQ(service.status().at("uncommitted_leases"), 1);
  EXPECT_EQ(kind_of([&] { service.step(rl(2, "step-1")); }), ErrorKind::kConflict);
  service.step(rl(2, "step-2"));
  EXPECT_TRUE(buffer.taken().empty()) << "the checkpoint is written behind the steps";
  service.settle(true);
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("step-1@1", "step-2@2"));
  const auto third = service.step(rl(3, "flat"));
  EXPECT_THAT(third.checkpoint, HasSubstr("step-00000002"));
  EXPECT_EQ(third.metrics.batch->zero_variance_groups, 1);
}

TEST_F(TrainerServiceTest, ALeaseIsFetchedAndCommittedWhateverItsIdHolds) {
  options.config.checkpoint_interval = 1;
  TrainerService service(options);
  service.step(rl(1, "steps/1 of 2?"));
  service.settle(true);
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("steps/1 of 2?@1"));
}

TEST_F(TrainerServiceTest, ALeaseInBinaryAndInJsonTrainTheSame) {
  std::vector<TensorChecksums> weights;
  std::vector<StepMetrics> metrics;
  for (const bool binary : {true, false}) {
    buffer.binary = binary;
    options.config.checkpoint = folder.path() / (binary ? "binary" : "json");
    TrainerService service(options);
    metrics.push_back(service.step(rl(1, "step-1")).metrics);
    weights.push_back(service.publish(1, "shm").checksums);
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(metrics[0].policy, metrics[1].policy);
  EXPECT_EQ(metrics[0].batch, metrics[1].batch);
}

// The bits of what is trained do not depend on when the sequences came, nor on what was thought of the weights then.
TEST_F(TrainerServiceTest, SequencesThatComeAheadTrainTheSame) {
  options.config.optimizer_steps_per_batch = 2;
  options.config.max_tokens_per_micro_batch = 64;
  std::vector<TensorChecksums> weights;
  std::vector<std::vector<StepMetrics>> metrics;
  for (const bool ahead : {false, true}) {
    options.config.checkpoint = folder.path() / (ahead ? "ahead" : "with");
    TrainerService service(options);
    auto& steps = metrics.emplace_back();
    const auto train = [&](const StepRequest& request, const StepRequest& sent_before) {
      if (ahead) service.prepare(sent_before);
      StepRequest named = request;
      if (ahead) named.sequences.clear();
      const StepResult result = service.step(named);
      EXPECT_EQ(result.ahead, ahead);
      steps.push_back(result.metrics);
      service.idle();  // as the server after each
    };
    train(sft(1), sft(1));
    if (ahead) service.prepare(sft(3));  // two can wait
    train(sft(2), sft(2));
    train(sft(3), sft(3));
    StepRequest of_now = rl(4, "step-4"), of_old = of_now;
    of_now.weight_version = 0;  // what the lease was sampled from
    of_old.weight_version = 7;
    train(of_now, of_old);
    StepRequest next = rl(5, "step-5");
    next.weight_version = 0;
    train(next, next);
    weights.push_back(service.publish(1, "shm").checksums);
  }
  EXPECT_EQ(weights[0], weights[1]);
  for (size_t i = 0; i < metrics[0].size(); ++i) {
    EXPECT_EQ(metrics[0][i].loss, metrics[1][i].loss) << i;
    EXPECT_EQ(metrics[0][i].policy, metrics[1][i].policy) << i;
    EXPECT_EQ(metrics[0][i].batch, metrics[1][i].batch) << i;
  }
  EXPECT_EQ(metrics[1][3].policy->on_policy_fraction, 1) << "packed anew for the weights that the step has";
  EXPECT_EQ(buffer.gets, 4) << "a lease that came ahead is fetched once";
}

TEST_F(TrainerServiceTest, WhatDidNotComeAheadIsAskedFor) {
  TrainerService service(options);
  const auto named = [](int64_t step) { return StepRequest{.step = step, .sequences = {}}; };
  EXPECT_EQ(kind_of([&] { service.step(named(1)); }), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of([&] { service.prepare(sft(3)); }), ErrorKind::kConflict);
  EXPECT_EQ(kind_of([&] { service.prepare(sft(0)); }), ErrorKind::kConflict);
  EXPECT_EQ(kind_of([&] { service.prepare(rl(1, "lost")); }), ErrorKind::kNotFound);
  StepRequest wrong = sft(1);
  wrong.sequences[0].tokens[0] = 61;  // one past the vocabulary
  EXPECT_EQ(kind_of([&] { service.prepare(wrong); }), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { service.step(named(1)); }), ErrorKind::kNotFound) << "what is wrong is not kept";
  service.prepare(rl(1, "step-1"));
  EXPECT_EQ(kind_of([&] { service.step(named(1)); }), ErrorKind::kNotFound) << "another kind of step";
  service.prepare(sft(2));
  EXPECT_EQ(service.step(sft(1)).metrics.step, 1);
  service.idle();
  EXPECT_EQ(service.step(rl(2, "step-2")).metrics.kind, StepKind::kRl) << "what the step itself says counts";
  EXPECT_FALSE(service.status().contains("part"));
}

TEST_F(TrainerServiceTest, TheNextStepsSequencesAreTakenWhileAStepIsUnderWay) {
  options.share_device = true;
  TrainerService service(options);
  TrainerServer server(service, net::ServerOptions{});
  server.start();
  DeviceLock measurer("cpu");
  std::optional<DeviceLock::Hold> held(measurer.exclusive());
  net::HttpClient client;
  const auto send = [&](const std::string& path, int64_t step) {
    return client
        .request("POST", server.url() + path,
                 to_binary({.step = step, .sequences = sft_sequences(3, static_cast<uint64_t>(step))}),
                 kSequencesContentType)
        .value();
  };
  auto first = std::async(std::launch::async, [&] { return send("/step", 1); });
  while (service.status().value("part", "") != "wait of the device") std::this_thread::yield();
  EXPECT_EQ(send("/prepare", 2).status, 200);
  EXPECT_EQ(service.status().at("part"), "wait of the device") << "the step goes on";
  held.reset();
  EXPECT_EQ(first.get().status, 200);
  const Json second = client.post_json(server.url() + "/step", {{"kind", "sft"}, {"step", 2}}).value();
  EXPECT_EQ(second.at("sequences"), 3);
  EXPECT_GE(second.at("seconds_fetch"), 0);
  EXPECT_EQ(client.post(server.url() + "/step", {{"kind", "sft"}, {"step", 3}}).value().status, 404);
  server.stop();
}

TEST_F(TrainerServiceTest, ARefusedCommitIsMadeUpForAfterARestart) {
  {
    TrainerService service(options);
    service.step(rl(1, "step-1"));
    buffer.accepts = false;
    service.save("");
    EXPECT_TRUE(buffer.taken().empty());
  }
  buffer.accepts = true;
  EXPECT_THROW(TrainerService{options}, Error);  // the folder holds a checkpoint and nobody asked to resume
  options.resume = true;
  options.buffer = buffer.http.url();  // its address in this start of the run
  TrainerService service(options);
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("step-1@1"));
  EXPECT_TRUE(service.step(rl(1, "step-1")).repeated);
  EXPECT_EQ(kind_of([&] { service.step(rl(2, "step-1")); }), ErrorKind::kConflict);  // none is trained twice
  EXPECT_EQ(service.step(rl(2, "step-2")).metrics.step, 2);
}

TEST_F(TrainerServiceTest, CountersSinceTheStartBeginWithIt) {
  {
    TrainerService service(options);
    service.step(sft(1));
    EXPECT_EQ(service.metrics().get("steps_total"), 1);
    service.save("");
  }
  options.resume = true;
  TrainerService service(options);
  EXPECT_EQ(service.metrics().get("step"), 1);
  EXPECT_EQ(service.metrics().get("checkpoint_step"), 1);
  EXPECT_EQ(service.metrics().get("steps_total"), 0);
  EXPECT_EQ(service.metrics().get("tokens_total"), 0);
  const double tokens = service.step(sft(2)).metrics.tokens;
  EXPECT_EQ(service.metrics().get("steps_total"), 1);
  EXPECT_EQ(service.metrics().get("tokens_total"), tokens);
}

TEST_F(TrainerServiceTest, LeasesAreCommittedWhereverTheBufferIsByThen) {
  {
    TrainerService service(options);
    service.step(rl(1, "step-1"));
    buffer.accepts = false;
    service.save("");
  }
  buffer.accepts = true;
  options.resume = true;
  TrainerService service(options);  // nobody has said yet where the buffer is
  EXPECT_EQ(service.uncommitted_leases(), 1);
  service.step(rl(2, "step-2"));
  service.save("");
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("step-1@1", "step-2@2"));
  service.save("");  // it is there already
  EXPECT_EQ(service.uncommitted_leases(), 0);
}

TEST_F(TrainerServiceTest, ALeaseThatTheBufferDoesNotKnowHoldsUpNoOther) {
  buffer.forgotten = "step-1";
  TrainerService service(options);
  service.step(rl(1, "step-1"));
  service.step(rl(2, "step-2"));
  service.save("");
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("step-2@2"));
  EXPECT_EQ(service.uncommitted_leases(), 1);
  buffer.forgotten.clear();
  service.save("");
  EXPECT_THAT(buffer.taken(), testing::ElementsAre("step-2@2", "step-1@1"));
}

// An engine of SGLang's that says what a trainer's group would be.
TEST_F(TrainerServiceTest, APushIsMadeAsThisOneSays) {
  std::mutex mutex;
  std::vector<std::string> backends;
  net::HttpServer engine(net::ServerOptions{});
  engine.route("GET", "/get_server_info", [](const net::Request&) { return net::Response::json({{"tp_size", 1}}); });
  engine.route("POST", "/init_weights_update_group", [&](const net::Request& request) {
    const std::lock_guard lock(mutex);
    backends.push_back(request.json().at("backend"));
    return net::Response::json({{"success", false}, {"message", "no such backend"}});
  });
  engine.start();
  TrainerService service(options);
  for (const char* backend : {"one", "another"}) {
    weights::SglangOptions how;
    how.backend = backend;
    EXPECT_THROW(service.push(1, {engine.url()}, how), Error);
  }
  EXPECT_THAT(backends, testing::ElementsAre("one", "another"));
}

TEST_F(TrainerServiceTest, ASequenceThatNoMicroBatchHoldsIsSetAside) {
  options.config.max_tokens_per_micro_batch = 13;  // the lease's have 14
  TrainerService service(options);
  const auto result = service.step(rl(1, "step-1"));
  EXPECT_EQ(result.metrics.step, 1);
  ASSERT_EQ(result.set_aside.size(), 2u);
  EXPECT_THAT(result.set_aside[0], HasSubstr("14 tokens, max_tokens_per_micro_batch is 13"));
  EXPECT_EQ(service.step(rl(1, "step-1")).set_aside, result.set_aside) << "and said again";
  EXPECT_EQ(service.step(rl(2, "step-2")).metrics.step, 2);
}

TEST_F(TrainerServiceTest, TheStepSaysUnderWhichVersionItsWeightsWereServed) {
  TrainerService service(options);
  service.step(sft(1));
  StepRequest request = rl(2, "step-2");
  request.weight_version = 0;  // what the lease was sampled from
  EXPECT_EQ(service.step(request).metrics.policy->on_policy_fraction, 1);
}

TEST_F(TrainerServiceTest, AnUnreachableOrUnknownLeaseChangesNothing) {
  TrainerService service(options);
  EXPECT_THROW(service.step(rl(1, "lost")), Error);
  StepRequest gone = rl(1, "step-1");
  gone.buffer = "http://127.0.0.1:1";
  try {
    service.step(gone);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1"));
  }
  EXPECT_EQ(service.step(rl(1, "step-1")).metrics.step, 1);
}

TEST_F(TrainerServiceTest, PublishedWeightsAreTheModelsAndReplaceTheOnesBefore) {
  TrainerService service(options);
  service.step(sft(1));
  const PublishedWeights first = service.publish(1, "shm");
  EXPECT_EQ(first.path, "/dev/shm/tritonforge-" + options.config.run_id + "/weights-00000001.safetensors");
  model::Model engine(sample_config(), at::kFloat, at::kCPU);
  EXPECT_EQ(model::load_weights(engine, first.path), first.checksums);
  service.step(sft(2));
  const PublishedWeights second = service.publish(2, "shm");
  EXPECT_FALSE(fs::exists(first.path));
  EXPECT_NE(first.checksums, second.checksums);
  const PublishedWeights on_disk = service.publish(3, folder.path() / "weights");
  EXPECT_EQ(on_disk.checksums, second.checksums);
  EXPECT_EQ(model::load_weights(engine, on_disk.path), on_disk.checksums);
  service.publish(4, folder.path() / "weights");
  EXPECT_FALSE(fs::exists(on_disk.path));
}

TEST_F(TrainerServiceTest, AFailedCheckpointLeavesTheStepAndShowsYellow) {
  options.config.checkpoint_interval = 1;
  TrainerService service(options);
  // A file where the checkpoint's temporary folder must go cannot be replaced by a folder of that name.
  const fs::path blocked = folder.path() / "checkpoints" / "step-00000001";
  write_file_atomic(blocked, "in the way");
  EXPECT_EQ(service.step(sft(1)).metrics.step, 1);
  service.settle(true);
  service.idle();
  EXPECT_EQ(service.health().colour, net::Colour::kYellow);
  fs::remove(blocked);
  service.save("");
  service.idle();
  EXPECT_EQ(service.health().colour, net::Colour::kGreen);
  EXPECT_EQ(service.status().at("checkpoint_step"), 1);
}

TEST_F(TrainerServiceTest, AHungStepIsRedAndNamesItsPart) {
  options.share_device = true;
  options.config.watchdog_s = 0.01;
  TrainerService service(options);
  DeviceLock measurer("cpu");
  std::optional<DeviceLock::Hold> held(measurer.exclusive());
  std::thread trains([&] { service.step(sft(1)); });
  const auto hangs = HasSubstr("step 1 hangs: wait of the device has not moved on for");
  while (!testing::Value(service.health().detail, hangs)) std::this_thread::yield();
  EXPECT_EQ(service.health().colour, net::Colour::kRed);
  EXPECT_EQ(service.status().at("part"), "wait of the device");
  held.reset();
  trains.join();
  service.idle();
  EXPECT_EQ(service.health().colour, net::Colour::kGreen);
  EXPECT_FALSE(service.status().contains("part"));
  EXPECT_GT(service.status().at("last").at("seconds_wait"), 0.01);
}

TEST_F(TrainerServiceTest, TheNextStepSaysWhatBecameOfACheckpointAndSaysItAgain) {
  options.config.checkpoint_interval = 2;
  TrainerService service(options);
  write_file_atomic(folder.path() / "checkpoints" / "step-00000002", "in the way");
  service.step(sft(1));
  EXPECT_EQ(service.step(sft(2)).checkpoint_error, "") << "it is written behind the steps";
  service.settle(true);
  const auto third = service.step(sft(3));
  EXPECT_THAT(third.checkpoint_error, testing::AllOf(testing::StartsWith("step 2: "), HasSubstr("step-00000002")));
  const auto again = service.step(sft(3));
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.checkpoint_error, third.checkpoint_error);
  EXPECT_EQ(service.step(sft(4)).checkpoint_error, "");
  service.settle(true);
  EXPECT_THAT(service.step(sft(5)).checkpoint, testing::EndsWith("step-00000004"));
}

TEST_F(TrainerServiceTest, AStopSavesOnlyWhereTheRunMayGoOnFrom) {
  options.config.stop_interval = 2;
  options.config.total_steps = 5;
  const auto goes_on_with = [&](int64_t steps) {  // a start, so many steps, a stop, and another start
    {
      TrainerService service(options);
      for (int64_t i = 0; i < steps; ++i) service.step(sft(service.steps_done() + 1));
      service.shut_down();
    }
    options.resume = true;
    return TrainerService(options).steps_done();
  };
  EXPECT_EQ(goes_on_with(2), 2);
  EXPECT_EQ(goes_on_with(1), 2);  // step 3 is between two
  EXPECT_EQ(goes_on_with(3), 5);  // the last one
}

// The next steps change nothing of a checkpoint that is still being written.
TEST_F(TrainerServiceTest, ACheckpointIsOfItsStepWhateverFollows) {
  options.config.checkpoint_interval = 2;
  std::map<std::string, std::string> weights;
  {
    TrainerService service(options);
    service.step(sft(1));
    service.step(sft(2));
    weights = service.publish(1, folder.path() / "weights").checksums;
    service.step(sft(3));
    service.settle(true);
    EXPECT_EQ(service.status().at("checkpoint_step"), -1) << "seen at the next note";
    service.idle();
    EXPECT_EQ(service.status().at("checkpoint_step"), 2);
  }
  options.resume = true;
  TrainerService resumed(options);
  EXPECT_EQ(resumed.steps_done(), 2);
  EXPECT_EQ(resumed.publish(1, folder.path() / "again").checksums, weights);
}

TEST_F(TrainerServiceTest, TheServerAnswersOverHttp) {
  TrainerService service(options);
  TrainerServer server(service, net::ServerOptions{.worker_threads = 1});
  server.start();
  net::HttpClient client;
  Json sequences = Json::array();
  for (const auto& s : sample_sequences(3, 1)) sequences.push_back({{"tokens", s.tokens}, {"loss_mask", s.loss_mask}});
  const Json step = {{"kind", "sft"}, {"step", 1}, {"sequences", sequences}};
  const auto in_binary = [&](const std::string& body) {
    return client.request("POST", server.url() + "/step", body, kSequencesContentType).value();
  };
  const Json first = client.post_json(server.url() + "/step", step).value();
  for (const char* field : {"step", "loss", "grad_norm", "lr", "tokens", "seconds", "tokens_per_s", "entropy"})
    EXPECT_TRUE(first.contains(field)) << field;
  Json again = client.post_json(server.url() + "/step", step).value();
  EXPECT_EQ(again["repeated"], true);
  EXPECT_EQ(again["loss"], first["loss"]);
  const std::string bytes = to_binary({.step = 1, .sequences = sft_sequences(3, 1)});
  again = parse_json(in_binary(bytes).body, "reply");
  EXPECT_EQ(again["repeated"], true);
  EXPECT_EQ(in_binary(bytes.substr(0, bytes.size() - 1)).status, 400);
  const auto wrong = client.post(server.url() + "/step", {{"kind", "sft"}, {"step", 7}, {"sequences", sequences}})
                         .value();
  EXPECT_EQ(wrong.status, 409);
  EXPECT_EQ(Json::parse(wrong.body).at("expected_step"), 2);
  const auto unknown = client.post(server.url() + "/step", {{"kind", "stf"}, {"step", 2}}).value();
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("did you mean 'sft'"));
  for (const char* path : {"/publish_weights", "/save", "/export"}) {
    const Json body = {{"version", 1}, {"folder", (folder.path() / "older").string()}, {"step", 5}};
    const auto other = client.post(server.url() + path, body).value();
    EXPECT_EQ(other.status, 409) << path;
    EXPECT_EQ(Json::parse(other.body).at("expected_step"), 2) << path;
  }
  EXPECT_FALSE(fs::exists(folder.path() / "older"));
  const Json published = client.post_json(server.url() + "/publish_weights", {{"version", 1}}).value();
  EXPECT_TRUE(fs::exists(published["path"].get<std::string>()));
  EXPECT_EQ(client.post_json(server.url() + "/export", {{"folder", (folder.path() / "out").string()}}).value()["path"],
            (folder.path() / "out").string());
  // Whatever is there stays there.
  EXPECT_EQ(client.post(server.url() + "/save", {{"path", (folder.path() / "out").string()}}).value().status, 409);
  EXPECT_TRUE(fs::exists(folder.path() / "out/config.json"));
  EXPECT_EQ(client.post_json(server.url() + "/save", Json::object()).value()["step"], 1);
  const Json status = client.get_json(server.url() + "/status").value();
  EXPECT_EQ(status["step"], 1);
  EXPECT_EQ(status["expected_step"], 2);
  EXPECT_EQ(status["checkpoint_step"], 1);
  EXPECT_EQ(client.get_json(server.url() + "/health").value()["status"], "green");
  EXPECT_THAT(client.get(server.url() + "/metrics").value().body, HasSubstr("tritonforge_trainer_step 1"));
  server.stop();
  EXPECT_FALSE(client.get(server.url() + "/status").ok());
}

}  // namespace
}  // namespace tritonforge::train
