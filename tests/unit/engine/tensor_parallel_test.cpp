// An engine of several ranks, threads on the CPU here, against one model: what it says, whatever happens meanwhile, and
// where it ends. (tests/gpu/team_test.cpp: a GPU a rank.)
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdio>
#include <future>

#include "base/log.h"
#include "engine/aten_runner.h"
#include "engine/engine.h"
#include "engine/team_runner.h"
#include "model/weights.h"
#include "net/bulk.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/random_schedule.h"
#include "weights/transport.h"

namespace tritonforge::engine {
namespace {

using ::testing::HasSubstr;

// fp32 sums in another order: a log-probability may move by so much (seen: below 2e-5).
constexpr float kTolerance = 1e-4F, kFp8Tolerance = 0.02F;

EngineOptions options_of(int64_t tp) {
  EngineOptions options = small_options();
  options.tp = tp;
  return options;
}

// Every kind of weight that a family has: biases of q, k, v, and of o; a head of its own or the embedding.
std::unique_ptr<model::Model> model_of(model::Family family, bool biases, bool tied, int64_t kv_heads = 2) {
  model::ModelConfig config = tiny_config();
  config.family = family;
  config.qk_norm = family == model::Family::kQwen3;
  config.attention_bias = biases;
  config.tie_embeddings = tied;
  config.num_kv_heads = kv_heads;
  auto model = std::make_unique<model::Model>(config, at::kFloat, at::kCPU);
  model->init_random(3, 0.4);
  for (const auto& [name, tensor] : model->named_parameters())
    if (tensor.dim() == 1) at::Tensor(tensor).uniform_(0.5, 1.5);
  return model;
}

std::vector<Output> answers_of(Core& core) {
  std::vector<Output> outputs(12);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Request request = request_of(static_cast<int64_t>(i) + 1);
    request.id = std::to_string(i);
    if (i % 2 == 0) request.sampling.temperature = 0;
    if (i % 4 == 1) request.log_probs = {.top = 3, .ids = {0, 150}, .prompt_from = 2};
    if (i % 4 == 3) request.sampling.frequency_penalty = 0.5;
    request.on_output = [&outputs, i](Output part) { outputs[i].append(std::move(part)); };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  while (core.has_work()) core.step();
  EXPECT_EQ(core.stats().failed_steps, 0);
  return outputs;
}

void expect_near(const std::vector<TokenLogProbs>& found, const std::vector<TokenLogProbs>& wanted, float tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t token = 0; token < wanted.size(); ++token) {
    ASSERT_EQ(found[token].size(), wanted[token].size());
    for (size_t i = 0; i < wanted[token].size(); ++i)
      EXPECT_NEAR(found[token][i].log_prob, wanted[token][i].log_prob, tolerance);
  }
}

void expect_ranks_say_what_one_says(const EngineOptions& form, float tolerance) {
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;  // as on the engine's thread
  at::manual_seed(1);
  for (const auto& [family, biases, tied, kv_heads, tp] : {std::tuple{model::Family::kQwen3, false, false, 2, 2},
                                                           {model::Family::kQwen3, true, true, 2, 2},
                                                           {model::Family::kQwen2, true, false, 4, 4}}) {
    SCOPED_TRACE(fmt::format("biases {}, tied {}, tp {}", biases, tied, tp));
    const auto whole = model_of(family, biases, tied, kv_heads);
    const bool fp8 = form.weight_dtype == WeightDtype::kFp8;
    EngineOptions options = form;
    options.tp = tp;
    Core ranks(options, parts_of(*whole, tp, fp8), nullptr);
    EXPECT_EQ(ranks.info().vocab_size, 200);
    EXPECT_EQ(ranks.info().tp, tp);
    const auto said = answers_of(ranks);
    Core one(form, parts_of(*whole, 1, fp8), nullptr);
    const auto wanted = answers_of(one);
    for (size_t i = 0; i < wanted.size(); ++i) {
      SCOPED_TRACE(i);
      expect_said(said[i].samples.at(0), wanted[i].samples.at(0), tolerance);
      const PromptLogProbs &found = said[i].prompt, &expected = wanted[i].prompt;
      ASSERT_EQ(found.log_probs.size(), expected.log_probs.size());
      EXPECT_EQ(expected.log_probs.empty(), i % 4 != 1);
      for (size_t t = 0; t < expected.log_probs.size(); ++t)
        EXPECT_NEAR(found.log_probs[t], expected.log_probs[t], tolerance);
      expect_near(found.top, expected.top, tolerance);
      expect_near(found.ids, expected.ids, tolerance);
      expect_near(said[i].samples[0].top_log_probs, wanted[i].samples[0].top_log_probs, tolerance);
    }
  }
}

TEST(TensorParallel, RanksSayWhatOneModelSays) { expect_ranks_say_what_one_says(small_options(), kTolerance); }

TEST(TensorParallel, RanksWithWeightsInFp8SayWhatOneModelSays) {
  EngineOptions fp8 = small_options();
  fp8.weight_dtype = WeightDtype::kFp8;
  expect_ranks_say_what_one_says(fp8, kTolerance);
}

// A number beside the middle between two of FP8 may be rounded to the other one where sums differ in their last bits.
TEST(TensorParallel, RanksWithACacheInFp8SayWhatOneModelSays) {
  EngineOptions fp8 = small_options();
  fp8.kv_cache_dtype = CacheDtype::kFp8;
  expect_ranks_say_what_one_says(fp8, kFp8Tolerance);
  fp8.weight_dtype = WeightDtype::kFp8;
  expect_ranks_say_what_one_says(fp8, kFp8Tolerance);
}

// Aborts, preemptions, sleeps, updates and steps without memory; 16 options, several thousand steps.
TEST(TensorParallel, RandomSchedulesLoseNoBlockAndChangeNoToken) {
  at::set_num_threads(1);
  Core alone(small_options(), tiny_model(), nullptr);
  const auto expected = said_alone(alone);
  const auto same = tiny_model();
  Happened sum;
  int64_t preempted = 0;
  for (int64_t variant = 0; variant < 16; ++variant) {
    const auto on = [variant](int bit) { return (variant >> bit & 1) != 0; };
    EngineOptions options = options_of(2);
    options.reuse_prefixes = on(0);
    options.draft_tokens = on(1) ? 5 : 0;
    options.rows_attention = on(2);
    if (on(3)) {
      options.kv_cache_tokens = 256 + 64;
      options.max_step_tokens = 20;
    }
    SCOPED_TRACE(fmt::format("reuse {}, drafts {}, rows {}, scarce {}", on(0), on(1), on(2), on(3)));
    Core core(options, parts_of(*same, 2), nullptr);
    const Happened happened = live_through({.seed = static_cast<uint64_t>(100 + variant)}, core, *same);
    for (const auto& [kind, sample] : happened.answers)
      expect_said(sample, expected[static_cast<size_t>(kind)], kTolerance);
    sum.aborts += happened.aborts;
    sum.sleeps += happened.sleeps;
    sum.updates += happened.updates;
    sum.failures += happened.failures;
    preempted += happened.stats.preemptions;
  }
  EXPECT_GT(sum.aborts, 10);
  EXPECT_GT(sum.sleeps, 20);
  EXPECT_GT(sum.updates, 20);
  EXPECT_GT(sum.failures, 10);
  EXPECT_GT(preempted, 50);
}

TEST(TensorParallel, EveryRanksPartComesBackFromTheHost) {
  at::set_num_threads(1);
  Core alone(small_options(), tiny_model(), nullptr);
  const auto expected = said_alone(alone, long_request_of);
  EngineOptions options = options_of(2);
  options.kv_cache_tokens = 448;
  options.kv_host_tokens = 1024;
  Core core(options, parts_of(*tiny_model(), 2), nullptr);
  const auto said = said_together(core, long_request_of);
  for (size_t kind = 0; kind < said.size(); ++kind) expect_said(said[kind], expected[kind], kTolerance);
  EXPECT_GT(core.stats().blocks_from_host, 5);
}

// Each way that a CPU has, and a part of the weights: every rank has its own of what was published.
TEST(TensorParallel, NewWeightsReachEveryRankByEveryWay) {
  const TemporaryFolder folder("ranks");
  net::BulkServer server({.key = "run"});
  const auto transports = weights::make_transports("run");
  Core core(options_of(2), parts_of(*tiny_model(1), 2), nullptr);
  int64_t version = 0;
  for (const std::string way : {"file", "tcp"}) {
    const auto source = tiny_model(20 + static_cast<uint64_t>(++version));
    PublishedWeights published{.path = folder.path() / (way + ".safetensors"), .version = version};
    published.checksums = model::save_safetensors(source->named_parameters(), published.path, {});
    published.tcp = StreamedWeights{"127.0.0.1", server.port()};
    server.offer(version, published.path);
    const auto by = std::ranges::find(transports, way, [](const auto& transport) { return transport->name(); });
    const auto staged = (*by)->stage(core.parts(), published, Deadline::after(10));
    EXPECT_EQ(core.install(staged, version).checksums, published.checksums) << way;
    EXPECT_EQ(model::weight_checksums(core.parts()), model::weight_checksums(*source));
    const auto parts = parts_of(*source, 2);
    for (int64_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(model::weight_checksums(core.parts()[rank]),
                model::weight_checksums(*parts[static_cast<size_t>(rank)]));
  }
  const at::Tensor o = at::randn({32, 64}), norm = at::randn({32});
  const weights::NamedTensors some{{"model.layers.1.self_attn.o_proj.weight", o}, {"model.norm.weight", norm}};
  const auto installed = core.install(weights::stage_part(core.parts(), some, "a test"), 9);
  EXPECT_EQ(installed.checksums, model::checksums_of(some));
  EXPECT_TRUE(at::equal(core.parts()[1].layers()[1].o_proj, o.narrow(1, 32, 32)));
  EXPECT_TRUE(at::equal(core.parts()[1].final_norm(), norm));
  // A replica that differs from the first rank's is told of.
  at::Tensor(core.parts()[1].final_norm()).add_(1);
  EXPECT_NE(model::weight_checksums(core.parts()).at("model.norm.weight"), installed.checksums.at("model.norm.weight"));
}

TEST(TensorParallel, RanksTakeTheirPartsFromAFolder) {
  const TemporaryFolder folder("parts");
  const auto whole = model_of(model::Family::kQwen3, true, true);
  model::save_model(*whole, folder.path() / "model");
  const auto parts = model::load_parts(folder.path() / "model", at::kFloat, {at::kCPU, at::kCPU});
  const auto expected = parts_of(*whole, 2);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(model::weight_checksums(*parts[rank]), model::weight_checksums(*expected[rank]));
}

TEST(TensorParallel, WhatCannotBeDividedIsRefused) {
  EXPECT_THAT([] { check_options(options_of(3)); },
              testing::ThrowsMessage<Error>(HasSubstr("'tp' is 3: 1, 2, 4 or 8")));
  const TemporaryFolder folder("parts");
  model::save_model(*tiny_model(), folder.path() / "model");
  EXPECT_THAT([&] { model::load_parts(folder.path() / "model", at::kFloat, std::vector<at::Device>(4, at::kCPU)); },
              testing::ThrowsMessage<Error>(HasSubstr("tp 4: the model's num_key_value_heads of 2 cannot be divided")));
}

// From a folder to an answer and to new weights, the engine's own thread being the first rank.
TEST(TensorParallel, AnEngineOfTwoRanksIsAnEngine) {
  const TemporaryFolder folder("engine");
  model::ModelConfig config = tiny_config();
  config.vocab_size = 1544;  // of the tokenizer
  model::Model first(config, at::kFloat, at::kCPU), second(config, at::kFloat, at::kCPU);
  first.init_random(1, 0.4);
  second.init_random(2, 0.4);
  model::save_model(first, folder.path() / "model");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fs::path(TF_SOURCE_DIR) / "models/tiny-base" / name, folder.path() / "model" / name);
  const fs::path file = folder.path() / "second.safetensors";
  const auto checksums = model::save_safetensors(second.named_parameters(), file, {});
  const auto life_of = [&](int64_t tp) {
    EngineOptions options = options_of(tp);
    options.model = folder.path() / "model";
    Engine engine(options);
    EXPECT_EQ(engine.info().tp, tp);
    const auto said = [&engine] {
      std::promise<std::vector<int64_t>> answer;
      Request request = request_of(9);
      request.sampling.temperature = 0;
      request.on_output = [&answer](const Output& output) { answer.set_value(output.samples[0].output_ids); };
      engine.submit(std::move(request)).value();
      return answer.get_future().get();
    };
    std::vector<std::vector<int64_t>> life{said()};
    const auto installed = engine.update_weights({file, 1, checksums, {}});
    EXPECT_TRUE(installed.ok()) << installed.error().what();
    EXPECT_EQ(installed->checksums, checksums);
    const at::Tensor o = engine.weight("model.layers.0.self_attn.o_proj.weight", 4);
    EXPECT_TRUE(at::equal(o, second.layers()[0].o_proj.narrow(0, 0, 4)));
    life.push_back(said());
    engine.release_memory();
    engine.resume_memory();
    life.push_back(said());
    return life;
  };
  const auto two = life_of(2);
  EXPECT_NE(two[0], two[1]);
  EXPECT_EQ(two[1], two[2]);
  EXPECT_EQ(two, life_of(1));
}

// The second rank's runner, which fails once or for good.
class FailingRunner : public AtenRunner {
 public:
  FailingRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model, model::Together* ranks,
                int64_t* failures, bool lost)
      : AtenRunner(options, sizes, model, ranks), failures_(failures), lost_(lost) {}
  void forward() override {
    if (*failures_ > 0 && --*failures_ >= 0) throw std::runtime_error("an illegal memory access was encountered\nand");
    AtenRunner::forward();
  }
  void check_device(at::Device device) const override {
    if (lost_) throw std::runtime_error("still");
    AtenRunner::check_device(device);
  }

 private:
  int64_t* const failures_;
  const bool lost_;
};

MakeTeamRunner with_failures(int64_t* failures, bool lost) {
  return [=](const EngineOptions& options, const model::Parts& parts) {
    SizedRunner made = make_team_runner(options, parts);
    auto team = std::make_unique<RankTeam>(parts.size(), 1);
    RankTeam* ranks = team.get();
    const auto make = [&](int64_t rank) -> std::unique_ptr<Runner> {
      model::Together* together = &ranks->together(rank);
      if (rank == 0) return std::make_unique<AtenRunner>(options, made.sizes, parts[rank], together);
      return std::make_unique<FailingRunner>(options, made.sizes, parts[rank], together, failures, lost);
    };
    made.runner = std::make_unique<TeamRunner>(std::move(team), nullptr, parts, make);
    return made;
  };
}

Output answer_of(Core& core) {
  Output output;
  Request request = request_of(7);
  request.id = "a";
  request.on_output = [&output](Output part) { output.append(std::move(part)); };
  core.admit(std::move(core.arrival(std::move(request)).value()));
  while (core.has_work()) core.step_or_recover();
  return output;
}

// The others wait for it in the middle of a layer: they are let go, and the next step is as any other.
TEST(TensorParallel, AStepThatFailsOnOneRankFailsOnAllAndTheNextOnesRun) {
  at::set_num_threads(1);
  int64_t failures = 1;
  Core core(options_of(2), parts_of(*tiny_model(), 2), nullptr, nullptr, with_failures(&failures, false));
  EXPECT_EQ(answer_of(core).samples.at(0).abort_message,
            "a step of the engine failed: an illegal memory access was encountered");
  EXPECT_EQ(core.stats().failed_steps, 1);
  const Output said = answer_of(core);
  Core one(small_options(), tiny_model(), nullptr);
  expect_said(said.samples.at(0), answer_of(one).samples.at(0), kTolerance);
  EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
}

TEST(TensorParallelDeathTest, ARankThatDiesEndsTheEngineWithOneLine) {
  const auto run = [] {
    std::freopen("/dev/null", "w", stdout);
    int64_t failures = 1;
    Core core(options_of(2), parts_of(*tiny_model(), 2), nullptr, nullptr, with_failures(&failures, true));
    spdlog::set_default_logger(spdlog::stderr_logger_mt("engine"));
    answer_of(core);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1),
              "^[^\n]*the engine ends, to be started again: cpu is lost with a step of 1 requests: an illegal memory "
              "access was encountered\n$");
}

TEST(RankTeam, SumsInTheRanksOrderAndLetsGoWhoWaitsForOneThatFailed) {
  int64_t let_go = 0;
  RankTeam team(3, 1, [&let_go] { ++let_go; });
  std::vector<at::Tensor> sums(3), wide(3);
  team.each([&](int64_t rank) {
    const at::Tensor x = at::full({2, 2}, std::pow(10.0, rank), at::kFloat);
    sums[static_cast<size_t>(rank)] = team.together(rank).sum(x);
    wide[static_cast<size_t>(rank)] = team.together(rank).side_by_side(x);
    EXPECT_TRUE(at::equal(x, at::full({2, 2}, std::pow(10.0, rank), at::kFloat)));  // its own is left alone
  });
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(at::equal(sums[rank], at::full({2, 2}, 111.0F)));
    EXPECT_TRUE(at::equal(wide[rank][0], at::tensor({1.0F, 1.0F, 10.0F, 10.0F, 100.0F, 100.0F})));
  }
  for (int64_t failing = 0; failing < 3; ++failing) {
    const auto work = [&](int64_t rank) {
      if (rank == failing) fail(ErrorKind::kMachine, "no more of rank {}", rank);
      team.together(rank).sum(at::ones({1}));
    };
    EXPECT_THAT([&] { team.each(work); }, testing::ThrowsMessage<Error>(fmt::format("no more of rank {}", failing)));
    EXPECT_EQ(let_go, failing + 1);
  }
  team.each([&](int64_t rank) { sums[static_cast<size_t>(rank)] = team.together(rank).sum(at::ones({1})); });
  EXPECT_EQ(sums[2].item<float>(), 3);
}

}  // namespace
}  // namespace tritonforge::engine
