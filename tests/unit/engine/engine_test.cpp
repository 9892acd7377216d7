#include "engine/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/filesystem.h"
#include "engine/sampler.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

// Collects the outputs of requests by id.
class Client {
 public:
  explicit Client(Engine& engine) : engine_(engine) {}
  Request request(std::vector<int64_t> prompt, uint64_t seed, int64_t max_new_tokens = 40) {
    Request request;
    request.prompt_ids = std::move(prompt);
    request.sampling.seed = seed;
    request.sampling.max_new_tokens = max_new_tokens;
    request.on_output = [this](Output output) {
      std::lock_guard lock(mutex_);
      const std::string id = output.id;
      latest_[id].append(std::move(output));
      changed_.notify_all();
    };
    return request;
  }
  std::string send(Request request) { return engine_.submit(std::move(request)).value(); }
  Output wait(const std::string& id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return latest_.count(id) != 0 && latest_[id].finished; });
    return latest_[id];
  }
  // Until `id` has at least n tokens.
  void wait_tokens(const std::string& id, size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return latest_.count(id) != 0 && latest_[id].samples[0].output_ids.size() >= n; });
  }

 private:
  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Output> latest_;
};

// 24 requests, some of one prompt, all submitted before any is awaited.
std::map<std::string, std::vector<int64_t>> tokens_under(const EngineOptions& options, EngineStats* stats = nullptr) {
  Engine engine(options, tiny_model(), nullptr);
  Client client(engine);
  engine.pause();
  for (int64_t i = 0; i < 24; ++i) {
    auto request = client.request(prompt_of(i < 12 ? 50 : 5 + 3 * i, i < 12 ? 1 : i), static_cast<uint64_t>(i), 30 + i);
    request.id = std::to_string(i);
    request.sampling.temperature = i % 5 == 0 ? 0 : 0.9;
    request.sampling.top_p = i % 3 == 0 ? 0.9 : 1;
    client.send(std::move(request));
  }
  engine.resume();
  std::map<std::string, std::vector<int64_t>> all;
  for (int i = 0; i < 24; ++i) {
    const Output output = client.wait(std::to_string(i));
    EXPECT_EQ(output.samples[0].finish, FinishReason::kLength);
    EXPECT_EQ(output.samples[0].output_ids.size(), 30u + i);
    all[output.id] = output.samples[0].output_ids;
  }
  if (stats != nullptr) *stats = engine.stats();
  EXPECT_EQ(engine.stats().kv_tokens_free, engine.stats().kv_tokens_total);
  return all;
}

// Returns the tokens.
std::map<std::string, std::vector<int64_t>> expect_scheduling_changes_none(CacheDtype cache) {
  EngineStats plain_stats, stats;
  EngineOptions plain = small_options();
  plain.kv_cache_dtype = cache;
  plain.reuse_prefixes = false;
  plain.max_step_tokens = 4096;
  const auto expected = tokens_under(plain, &plain_stats);
  EXPECT_EQ(plain_stats.preemptions, 0);

  EngineOptions one_by_one = plain;
  one_by_one.max_running = 1;
  EXPECT_EQ(tokens_under(one_by_one), expected);

  EngineOptions reuse = plain;
  reuse.reuse_prefixes = true;
  EXPECT_EQ(tokens_under(reuse, &stats), expected);
  EXPECT_GT(stats.cached_tokens, 11 * 40);

  EngineOptions chunked = plain;
  chunked.max_step_tokens = 16;
  EXPECT_EQ(tokens_under(chunked), expected);

  EngineOptions scarce = plain;
  scarce.kv_cache_tokens = 256;
  EXPECT_EQ(tokens_under(scarce, &stats), expected);
  EXPECT_GT(stats.preemptions, 0);

  EngineOptions scarce_reuse = scarce;
  scarce_reuse.reuse_prefixes = true;
  EXPECT_EQ(tokens_under(scarce_reuse, &stats), expected);

  EngineOptions on_host = scarce_reuse;  // little is computed again where the host keeps it
  on_host.kv_host_tokens = 512;
  EngineStats kept;
  EXPECT_EQ(tokens_under(on_host, &kept), expected);
  EXPECT_GT(kept.blocks_from_host, 0);
  EXPECT_LT(kept.prompt_tokens, stats.prompt_tokens);

  EngineOptions padded = plain;
  padded.pad_batches = true;
  EXPECT_EQ(tokens_under(padded), expected);

  return expected;
}

TEST(Engine, TokensDoNotDependOnHowTheWorkIsScheduled) {
  const auto expected = expect_scheduling_changes_none(CacheDtype::kAuto);
  EngineOptions rows = small_options();
  rows.reuse_prefixes = false;
  rows.max_step_tokens = 4096;
  rows.rows_attention = true;
  EXPECT_EQ(tokens_under(rows), expected);
  rows.pad_batches = true;
  EXPECT_EQ(tokens_under(rows), expected);
}

TEST(Engine, TokensOfAnFp8CacheDoNotEither) {
  EXPECT_NE(expect_scheduling_changes_none(CacheDtype::kFp8), tokens_under(small_options()));
}

TEST(Engine, LogProbsAreTheModelsOwn) {
  Engine engine(small_options(), tiny_model(), nullptr);
  Client client(engine);
  for (const double temperature : {0.0, 1.0, 0.7}) {
    auto request = client.request(prompt_of(20, 3), 5);
    request.sampling.temperature = temperature;
    request.sampling.top_k = 20;
    const Output output = client.wait(client.send(std::move(request)));
    const Sample& sample = output.samples[0];
    std::vector<int64_t> all = prompt_of(20, 3);
    all.insert(all.end(), sample.output_ids.begin(), sample.output_ids.end());
    const auto model = tiny_model();
    const auto n = static_cast<int64_t>(all.size());
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = model->forward(at::tensor(all), at::arange(n), model::packed_attention({0, n}));
    const at::Tensor log_probs = at::log_softmax(model->logits(hidden) / (temperature == 0 ? 1.0 : temperature), 1);
    for (size_t i = 0; i < sample.output_ids.size(); ++i) {
      EXPECT_NEAR(sample.log_probs[i], log_probs[19 + static_cast<int64_t>(i)][sample.output_ids[i]].item<float>(),
                  1e-4);
    }
  }
}

TEST(Engine, SamplesOfOneRequestDifferAndTheFirstIsThatOfNOne) {
  Engine engine(small_options(), tiny_model(), nullptr);
  Client client(engine);
  const Output one = client.wait(client.send(client.request(prompt_of(30, 1), 9)));
  auto request = client.request(prompt_of(30, 1), 9);
  request.sampling.n = 4;
  const Output four = client.wait(client.send(std::move(request)));
  ASSERT_EQ(four.samples.size(), 4u);
  EXPECT_EQ(four.samples[0].output_ids, one.samples[0].output_ids);
  EXPECT_NE(four.samples[1].output_ids, four.samples[0].output_ids);
  EXPECT_NE(four.samples[2].output_ids, four.samples[1].output_ids);
}

TEST(Engine, RequestsWithoutASeedDoNotSampleTheSame) {
  Engine engine(small_options(), tiny_model(), nullptr);
  Client client(engine);
  std::set<std::vector<int64_t>> answers;
  for (int i = 0; i < 8; ++i) {
    auto request = client.request(prompt_of(30, 1), 0);
    request.sampling.seed.reset();
    answers.insert(client.wait(client.send(std::move(request))).samples[0].output_ids);
  }
  EXPECT_EQ(answers.size(), 8u);
}

TEST(Engine, StopTokensEndASampleAndStayInItsIds) {
  Engine engine(small_options(), tiny_model(), nullptr);
  Client client(engine);
  const Output free = client.wait(client.send(client.request(prompt_of(10, 2), 4)));
  const int64_t stop = free.samples[0].output_ids[7];
  auto request = client.request(prompt_of(10, 2), 4);
  request.sampling.stop_token_ids = {stop};
  const Output stopped = client.wait(client.send(std::move(request)));
  EXPECT_EQ(stopped.samples[0].finish, FinishReason::kStop);
  EXPECT_EQ(stopped.samples[0].matched_token, stop);
  EXPECT_EQ(stopped.samples[0].output_ids.back(), stop);
  EXPECT_LE(stopped.samples[0].output_ids.size(), 8u);
}

TEST(Engine, TheContextEndsASample) {
  EngineOptions options = small_options();
  options.max_context = 40;
  Engine engine(options, tiny_model(), nullptr);
  Client client(engine);
  const Output output = client.wait(client.send(client.request(prompt_of(30, 2), 4, 1000)));
  EXPECT_EQ(output.samples[0].output_ids.size(), 10u);
  EXPECT_EQ(output.samples[0].finish, FinishReason::kLength);
  const auto refused = engine.submit(client.request(prompt_of(40, 2), 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUsage);
}

TEST(Engine, PauseStopsSteppingAndAbortFreesBlocks) {
  // Long enough that it is still running when this thread gets to pause(), however late that is.
  EngineOptions options = small_options();
  options.max_context = 512;
  options.kv_cache_tokens = 16 * 512;
  Engine engine(options, tiny_model(), nullptr);
  Client client(engine);
  auto request = client.request(prompt_of(10, 2), 4, 500);
  request.sampling.n = 16;
  request.stream = true;
  const std::string id = client.send(std::move(request));
  client.wait_tokens(id, 3);
  engine.pause();
  const int64_t steps = engine.stats().steps;
  engine.flush_cache();  // a command goes through the engine's loop, and no step with it
  EXPECT_EQ(engine.stats().steps, steps);
  engine.abort(id, "enough");
  const Output output = client.wait(id);
  EXPECT_EQ(output.samples[0].finish, FinishReason::kAbort);
  EXPECT_EQ(output.samples[0].abort_message, "enough");
  EXPECT_GE(output.samples[0].output_ids.size(), 3u);
  engine.flush_cache();
  EXPECT_EQ(engine.stats().kv_tokens_free, engine.stats().kv_tokens_total);
  engine.resume();
}

// The engine's thread is held inside a callback: a command cannot be carried out.
TEST(Engine, ACommandThatCannotBeCarriedOutInTimeIsWithdrawn) {
  Engine engine(small_options(), tiny_model(), nullptr);
  std::promise<void> entered, leave;
  Request request;
  request.prompt_ids = prompt_of(5, 1);
  request.sampling.max_new_tokens = 1;
  request.on_output = [&](Output) {
    entered.set_value();
    leave.get_future().wait();
  };
  ASSERT_TRUE(engine.submit(std::move(request)).ok());
  entered.get_future().wait();
  try {
    engine.pause(PauseMode::kInPlace, Deadline::after(0.01));
    ADD_FAILURE() << "pause() returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_NE(std::string(error.what()).find("pause"), std::string::npos);
  }
  leave.set_value();
  engine.flush_cache();  // a command goes through
  EXPECT_FALSE(engine.stats().paused);
}

// The same way, in the middle of a request; another one waits.
TEST(Engine, SaysThatItHangsWhereNoStepEndsAndRequestsWait) {
  EngineOptions options = small_options();
  options.watchdog_s = 0.1;
  Engine engine(options, tiny_model(), nullptr);
  Client client(engine);
  const auto expect_none = [&] {  // for longer than that
    const auto since = Clock::now();
    while (seconds_since(since) < 2 * options.watchdog_s) ASSERT_EQ(engine.fault(), "");
  };
  expect_none();  // nothing to do
  engine.pause();
  const std::string waits = client.send(client.request(prompt_of(5, 2), 1));
  engine.flush_cache();  // the request has come in
  expect_none();         // it is not to do anything
  engine.resume();
  client.wait(waits);

  std::promise<void> entered, leave;
  bool first = true;
  Request request;
  request.prompt_ids = prompt_of(5, 1);
  request.sampling.max_new_tokens = 2;
  request.stream = true;
  request.on_output = [&](Output) {
    if (!std::exchange(first, false)) return;
    entered.set_value();
    leave.get_future().wait();
  };
  ASSERT_TRUE(engine.submit(std::move(request)).ok());
  entered.get_future().wait();
  const std::string behind = client.send(client.request(prompt_of(5, 3), 1));
  const Deadline deadline = Deadline::after(20);
  while (engine.fault().empty() && !deadline.expired()) std::this_thread::yield();
  const std::string fault = engine.fault();
  EXPECT_TRUE(fault.starts_with("it hangs: no step has ended for ")) << fault;
  EXPECT_NE(fault.find(", and 2 sequences run or wait (watchdog_s 0.1)"), std::string::npos) << fault;
  leave.set_value();
  client.wait(behind);
  while (!engine.fault().empty() && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(engine.fault(), "");
}

TEST(Engine, AFullQueueIsRefusedAndBadFieldsAreNamed) {
  EngineOptions options = small_options();
  options.max_running = 2;
  options.max_queue = 1;
  Engine engine(options, tiny_model(), nullptr);
  Client client(engine);
  engine.pause();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(client.send(client.request(prompt_of(5, i), 1, 3)));
  const auto refused = engine.submit(client.request(prompt_of(5, 9), 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kBusy);
  engine.resume();
  for (const auto& id : ids) client.wait(id);
  for (const auto& [field, change] : std::map<std::string, std::function<void(Request&)>>{
           {"top_p", [](Request& r) { r.sampling.top_p = 1.5; }},
           {"temperature", [](Request& r) { r.sampling.temperature = -1; }},
           {"temperature must be 0 (greedy) or between", [](Request& r) { r.sampling.temperature = 1e39; }},
           {"repetition_penalty must be", [](Request& r) { r.sampling.repetition_penalty = 1e-60; }},
           {"top_k", [](Request& r) { r.sampling.top_k = 0; }},
           {"stop_token_ids", [](Request& r) { r.sampling.stop_token_ids = {200}; }},
           {"prompt", [](Request& r) { r.prompt_ids = {5, 999}; }},
           {"params.n", [](Request& r) { r.sampling.n = 0; }}}) {
    auto request = client.request(prompt_of(5, 1), 1);
    change(request);
    const auto result = engine.submit(std::move(request));
    ASSERT_FALSE(result.ok()) << field;
    EXPECT_NE(std::string(result.error().what()).find(field), std::string::npos) << result.error().what();
  }
}

TEST(Engine, ADeadlineAbortsAlsoWhilePaused) {
  Engine engine(small_options(), tiny_model(), nullptr);
  Client client(engine);
  engine.pause();
  auto request = client.request(prompt_of(5, 1), 1);
  request.deadline = Deadline::after(0.01);
  EXPECT_EQ(client.wait(client.send(std::move(request))).samples[0].finish, FinishReason::kAbort);
}

TEST(Engine, LogitsThatAreNotNumbersAbortTheirRequestAlone) {
  auto model = tiny_model();
  for (auto& [name, tensor] : model->named_parameters()) {
    if (name == "model.embed_tokens.weight") {
      const at::NoGradGuard no_grad;
      tensor[150].fill_(std::numeric_limits<float>::quiet_NaN());
    }
  }
  Engine engine(small_options(), std::move(model), nullptr);
  Client client(engine);
  engine.pause();
  const std::string bad = client.send(client.request({1, 150, 2}, 1, 1)),
                    good = client.send(client.request({1, 2, 3}, 1, 1));
  engine.resume();
  EXPECT_EQ(client.wait(bad).samples[0].finish, FinishReason::kAbort);
  EXPECT_EQ(client.wait(good).samples[0].finish, FinishReason::kLength);
}

class WeightUpdate : public testing::Test {
 protected:
  TemporaryFolder folder{"engine-weights"};
  Engine engine{small_options(), tiny_model(1), nullptr};
  Client client{engine};
};

TEST_F(WeightUpdate, SwapsBetweenStepsAndMarksEachToken) {
  const auto other = tiny_model(2);
  const fs::path file = folder.path() / "new.safetensors";
  const auto checksums = model::save_safetensors(other->named_parameters(), file, {});
  auto request = client.request(prompt_of(20, 1), 3, 200);
  request.stream = true;
  const std::string running = client.send(std::move(request));
  client.wait_tokens(running, 5);
  const auto installed = engine.update_weights({file, 4, checksums, {}});
  ASSERT_TRUE(installed.ok()) << installed.error().what();
  EXPECT_EQ(installed->version, 4);
  EXPECT_EQ(installed->checksums, checksums);
  const Output output = client.wait(running);
  const auto& versions = output.samples[0].weight_versions;
  ASSERT_EQ(versions.size(), output.samples[0].output_ids.size());
  EXPECT_EQ(versions.front(), 0);
  EXPECT_EQ(versions.back(), 4);
  EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
  EXPECT_TRUE(output.samples[0].mixed_cache);
  EXPECT_FALSE(client.wait(client.send(client.request(prompt_of(20, 1), 3))).samples[0].mixed_cache);
  // The same prompt now gives what an engine of the new weights gives: nothing old is found in the cache.
  Engine fresh(small_options(), tiny_model(2), nullptr);
  Client fresh_client(fresh);
  EXPECT_EQ(client.wait(client.send(client.request(prompt_of(40, 1), 3))).samples[0].output_ids,
            fresh_client.wait(fresh_client.send(fresh_client.request(prompt_of(40, 1), 3))).samples[0].output_ids);
}

// Held back until what runs has ended on the weights that it began with.
TEST_F(WeightUpdate, ModeWaitLetsRequestsEndAndHoldsNewOnes) {
  const fs::path file = folder.path() / "new.safetensors";
  const auto checksums = model::save_safetensors(tiny_model(2)->named_parameters(), file, {});
  auto request = client.request(prompt_of(20, 1), 3, 200);
  request.stream = true;
  const std::string running = client.send(std::move(request));
  client.wait_tokens(running, 5);
  engine.pause();  // so that the update is there before the request ends
  auto updated = std::async(std::launch::async,
                            [&] { return engine.update_weights({file, 4, checksums, {}}, UpdateMode::kWait); });
  // Once the update is asked for, nothing is begun.
  while (!engine.stats().draining) std::this_thread::yield();
  const std::string late = client.send(client.request(prompt_of(30, 1), 5));
  engine.resume();
  const auto installed = updated.get();
  ASSERT_TRUE(installed.ok()) << installed.error().what();
  EXPECT_EQ(installed->version, 4);
  const auto versions = [&](const std::string& id) { return client.wait(id).samples[0].weight_versions; };
  EXPECT_EQ(versions(running), std::vector<int64_t>(200, 0));
  EXPECT_EQ(versions(late), std::vector<int64_t>(40, 4));
  EXPECT_FALSE(client.wait(running).samples[0].mixed_cache);
}

TEST_F(WeightUpdate, ModeWaitIsWithdrawnAtItsDeadlineAndModeAbortDoesNotWait) {
  const fs::path file = folder.path() / "new.safetensors";
  const auto checksums = model::save_safetensors(tiny_model(2)->named_parameters(), file, {});
  engine.pause();
  auto request = client.request(prompt_of(20, 1), 3, 200);
  request.stream = true;
  engine.resume();
  const std::string running = client.send(std::move(request));
  client.wait_tokens(running, 1);
  engine.pause();
  const auto late = engine.update_weights({file, 4, checksums, {}}, UpdateMode::kWait, Deadline::after(0.05));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind(), ErrorKind::kTimeout);
  EXPECT_NE(std::string(late.error().what()).find("nothing was done"), std::string::npos) << late.error().what();
  ASSERT_TRUE(engine.update_weights({file, 5, checksums, {}}, UpdateMode::kAbort).ok());
  EXPECT_EQ(client.wait(running).samples[0].finish, FinishReason::kAbort);
  engine.resume();
  EXPECT_EQ(client.wait(client.send(client.request(prompt_of(9, 1), 3, 2))).samples[0].weight_versions,
            std::vector<int64_t>(2, 5));
}

// A GPU's memory that cannot be had here, in one line; the file stands in for it, and must be there.
TEST_F(WeightUpdate, MemoryThatCannotBeMappedIsRefusedAndTheFileIsTaken) {
  const fs::path file = folder.path() / "new.safetensors";
  const auto checksums = model::save_safetensors(tiny_model(2)->named_parameters(), file, {});
  const DeviceWeights device{"boot", "GPU-1", std::string(128, '0'), 0, 64, "other"};
  const auto refused = engine.update_weights({"", 4, checksums, device});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnsupported);
  EXPECT_STREQ(refused.error().what(), "device weights: they lie on GPU-1, this engine computes on cpu");
  const auto installed = engine.update_weights({file, 4, checksums, device});
  ASSERT_TRUE(installed.ok()) << installed.error().what();
  EXPECT_EQ(installed->checksums, checksums);
}

TEST_F(WeightUpdate, WhatALibraryThrowsIsAnAnswerInOneLine) {
  const auto failed = engine.update_weights(
      [](const model::Parts&) {
        at::empty({int64_t{1} << 50});
        return weights::StagedWeights();
      },
      4);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind(), ErrorKind::kInternal);
  const std::string said = failed.error().what();
  EXPECT_NE(said.find("allocate memory"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

TEST_F(WeightUpdate, AnythingWrongLeavesTheOldWeights) {
  const auto before = client.wait(client.send(client.request(prompt_of(20, 1), 3))).samples[0].output_ids;
  const auto other = tiny_model(2);
  const fs::path file = folder.path() / "new.safetensors";
  auto checksums = model::save_safetensors(other->named_parameters(), file, {});
  const auto refused = [&](const fs::path& path, const std::map<std::string, std::string>& sums,
                           const std::string& tells) {
    const auto result = engine.update_weights({path, 4, sums, {}});
    ASSERT_FALSE(result.ok()) << tells;
    EXPECT_NE(std::string(result.error().what()).find(tells), std::string::npos) << result.error().what();
    EXPECT_EQ(client.wait(client.send(client.request(prompt_of(20, 1), 3))).samples[0].output_ids, before);
    EXPECT_EQ(engine.stats().weight_version, 0);
  };
  auto wrong = checksums;
  wrong.begin()->second[0] = wrong.begin()->second[0] == '0' ? '1' : '0';
  refused(file, wrong, wrong.begin()->first);

  const fs::path truncated = folder.path() / "truncated.safetensors";
  std::ofstream(truncated, std::ios::binary) << read_file(file).substr(0, 5000);
  refused(truncated, checksums, "truncated.safetensors");

  auto parameters = other->named_parameters();
  const fs::path missing = folder.path() / "missing.safetensors";
  const std::string last = parameters.back().first;
  parameters.pop_back();
  model::save_safetensors(parameters, missing, {});
  refused(missing, {}, last);

  parameters.emplace_back(last, at::zeros({3, 3}));
  const fs::path shape = folder.path() / "shape.safetensors";
  model::save_safetensors(parameters, shape, {});
  refused(shape, {}, "[3, 3]");

  refused(folder.path() / "nothing.safetensors", {}, "nothing.safetensors");
  ASSERT_TRUE(engine.update_weights({file, -1, checksums, {}}).ok());
  EXPECT_EQ(engine.stats().weight_version, 1);
}

TEST(AtenSampler, FollowsTheSameDistributionAndLogProbs) {
  at::manual_seed(4);
  const int64_t vocab = 30, draws = 2000;
  const at::Tensor logits = at::randn({1, vocab}) * 1.5;
  for (const kernels::SampleRow base :
       {kernels::SampleRow{}, kernels::SampleRow{.top_k = 4}, kernels::SampleRow{.top_p = 0.7f},
        kernels::SampleRow{.min_p = 0.2f}, kernels::SampleRow{.temperature = 0}}) {
    Sampler sampler(at::kCPU);
    std::map<int64_t, double> found, expected;
    std::vector<kernels::SampleRow> rows(static_cast<size_t>(draws), base);
    for (int64_t i = 0; i < draws; ++i) rows[i].position = static_cast<uint64_t>(i);
    const at::Tensor all = logits.expand({draws, vocab}).contiguous();
    const auto aten = sampler.sample_with_aten(all, rows);
    for (const auto& draw : aten) found[draw.token] += 1.0 / draws;
    const auto native = sampler.sample(all, rows);
    std::map<int64_t, float> log_probs;
    for (const auto& draw : native) {
      expected[draw.token] += 1.0 / draws;
      log_probs[draw.token] = draw.log_prob;
    }
    double distance = 0;
    for (int64_t token = 0; token < vocab; ++token) distance += std::abs(found[token] - expected[token]) / 2;
    EXPECT_LT(distance, 0.08);
    for (const auto& draw : aten) {
      if (log_probs.count(draw.token) != 0) {
        EXPECT_NEAR(draw.log_prob, log_probs[draw.token], 1e-5);
      }
    }
    const at::Tensor second = all.slice(0, 7, 8).contiguous();
    const int64_t together = aten[7].token;
    EXPECT_EQ(sampler.sample_with_aten(second, std::span(rows).subspan(7, 1))[0].token, together);
  }
}

}  // namespace
}  // namespace tritonforge::engine
