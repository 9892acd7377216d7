// Ranks of every layout against one process: threads with a trainer each, in fp32 over Gloo.
#include "train/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "model/weights.h"
#include "train/checkpoint.h"
#include "train/pipeline.h"
#include "unit/parallel/run_ranks.h"
#include "unit/train/sample_model.h"
#include "unit/train/scarce.h"

namespace tritonforge::train {
namespace {

using parallel::ParallelDims;

struct Course {
  std::vector<StepMetrics> steps;
  model::TensorParallel at;
  std::map<std::string, at::Tensor> weights;  // of the rank's part
};

TrainConfig config_of(const ParallelDims& dims) {
  TrainConfig config = sample_train_config();
  config.parallel = dims;
  config.parallel.timeout_s = 60;
  config.lr = 1e-3;  // at ten times that Adam makes 1e-6 of a gradient 3e-6 of its norm within 20 steps
  config.max_tokens_per_micro_batch = 64;
  return config;
}

constexpr auto kRing = parallel::CpForm::kRing;

// A vocabulary that two and four can share out.
model::ModelConfig shape_of(bool tied) {
  model::ModelConfig shape = sample_config(tied);
  shape.vocab_size = 64;
  shape.eos_token_ids = {63};  // as real models have it: not among the first rank's rows
  return shape;
}

using Steps = std::function<void(Trainer&, Course&)>;

Course course_of(const TrainConfig& config, parallel::World* world, const model::ModelConfig& shape,
                 const Steps& steps) {
  Course course;
  course.at = {world != nullptr ? world->at().tp : 0, config.parallel.tp};
  const model::Stage stage = stage_at(config.parallel, world != nullptr ? world->at() : parallel::Coordinates{});
  const auto part = [&] {
    model::Model model(model::stage_of(model::part_of(shape, course.at.size), stage), at::kFloat, at::kCPU);
    // The deeper a model of large weights, the more becomes of a gradient's last bits.
    model::init_random_part(model, course.at, 3, 0.6 / static_cast<double>(shape.num_layers));
    return model;
  };
  std::optional<model::Model> reference;
  // The start weights: another seed's have gradients that Adam throws about.
  if (config.loss.kl_coef > 0) reference = part();
  Trainer trainer(config, part(), std::move(reference), {}, world);
  steps(trainer, course);
  for (const auto& [name, tensor] : trainer.model().named_parameters())
    course.weights.emplace(name, tensor.detach().clone());
  return course;
}

std::vector<Course> courses(const TrainConfig& config, const model::ModelConfig& shape, const Steps& steps) {
  std::vector<Course> courses(static_cast<size_t>(config.parallel.world()));
  if (config.parallel.world() == 1) return {course_of(config, nullptr, shape, steps)};
  parallel::run_ranks(config.parallel, [&](parallel::World& world) {
    courses[static_cast<size_t>(world.rank())] = course_of(config, &world, shape, steps);
  });
  return courses;
}

// Of a rank's weights to those of one process.
double largest(const Course& alone, const Course& rank) {
  double largest = 0;
  for (const auto& [name, part] : rank.weights) {
    const at::Tensor whole = model::tensor_part(name, part.sizes(), rank.at).of(alone.weights.at(name));
    largest = std::max(largest, (whole - part).abs().max().item<double>());
  }
  return largest;
}

// What two ranks both have is the same, to the bit.
void expect_same(const Course& a, const Course& b) {
  for (const auto& [name, tensor] : a.weights) {
    if (a.at.rank != b.at.rank && !model::tensor_part(name, tensor.sizes(), a.at).replica) continue;
    const auto other = b.weights.find(name);
    if (other != b.weights.end()) EXPECT_TRUE(at::equal(tensor, other->second)) << name;
  }
}

// Every axis, and the products of two.
const std::vector<ParallelDims> kLayouts{{.dp = 2},          {.dp = 3},          {.tp = 2},
                                         {.cp = 2},          {.cp = 4},          {.pp = 2},
                                         {.tp = 2, .cp = 2}, {.tp = 2, .dp = 2}, {.cp = 2, .dp = 2},
                                         {.tp = 2, .pp = 2}, {.cp = 2, .pp = 2}, {.pp = 2, .dp = 2}};
std::string name_of(const ParallelDims& dims) {
  return fmt::format("tp {} cp {} ({}) pp {} x {} dp {}", dims.tp, dims.cp, tritonforge::name_of(dims.cp_form), dims.pp,
                     dims.pp_chunks, dims.dp);
}

void expect_equal_courses(const TrainConfig& one, const Steps& steps, const model::ModelConfig& shape,
                          const std::vector<ParallelDims>& layouts = kLayouts) {
  const Course alone = courses(one, shape, steps)[0];
  for (const ParallelDims& dims : layouts) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name_of(dims));
    TrainConfig config = one;
    config.parallel = config_of(dims).parallel;
    const std::vector<Course> all = courses(config, shape, steps);
    for (const Course& course : all) {
      ASSERT_EQ(course.steps.size(), alone.steps.size());
      for (size_t i = 0; i < alone.steps.size(); ++i) {
        const StepMetrics &a = alone.steps[i], &b = course.steps[i];
        EXPECT_NEAR(a.loss, b.loss, 1e-6 * std::max(1.0, std::fabs(a.loss))) << "step " << i;
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 2e-6 * std::max(1.0, a.grad_norm)) << "step " << i;
        EXPECT_EQ(a.tokens, b.tokens);
        EXPECT_EQ(a.target_tokens, b.target_tokens);
        EXPECT_NEAR(a.entropy, b.entropy, 1e-5);
        ASSERT_EQ(a.policy.has_value(), b.policy.has_value());
        if (!a.policy) continue;
        EXPECT_NEAR(a.policy->clip_fraction, b.policy->clip_fraction, 1e-6);
        EXPECT_NEAR(a.policy->kl, b.policy->kl, 1e-5);
        EXPECT_NEAR(a.policy->train_rollout_logprob_abs_diff, b.policy->train_rollout_logprob_abs_diff, 1e-5);
        EXPECT_NEAR(a.policy->train_rollout_logprob_abs_diff_max, b.policy->train_rollout_logprob_abs_diff_max, 1e-4);
      }
      EXPECT_LT(largest(alone, course), 5e-5);
      expect_same(all[0], course);
    }
  }
}

const Steps kTwentyOfSft = [](Trainer& trainer, Course& course) {
  for (uint64_t step = 0; step < 20; ++step)
    course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(9, 40 + step)));
};

TEST(Ranks, TwentyStepsOfSftEqualOneProcess) {
  expect_equal_courses(config_of({}), kTwentyOfSft, shape_of(/*tied=*/true));
  expect_equal_courses(config_of({}), kTwentyOfSft, shape_of(/*tied=*/false),
                       {{.dp = 2}, {.tp = 2}, {.cp = 2}, {.pp = 2}});
}

// More ranks than heads, and sequences of fewer tokens than chunks; products with each other axis; biases, no norms of
// heads, and what recomputing computes again.
TEST(Ranks, RingsEqualOneProcess) {
  expect_equal_courses(config_of({}), kTwentyOfSft, shape_of(/*tied=*/true),
                       {{.cp = 2, .cp_form = kRing},
                        {.cp = 3, .cp_form = kRing},
                        {.cp = 6, .cp_form = kRing},
                        {.cp = 2, .dp = 2, .cp_form = kRing},
                        {.tp = 2, .cp = 3, .cp_form = kRing},
                        {.cp = 2, .pp = 2, .cp_form = kRing},
                        {.tp = 2, .cp = 2, .dp = 2, .cp_form = kRing}});
  model::ModelConfig qwen2 = shape_of(/*tied=*/false);
  qwen2.family = model::Family::kQwen2;
  qwen2.qk_norm = false;
  qwen2.attention_bias = true;
  TrainConfig config = config_of({});
  config.recompute_layers = 1;
  expect_equal_courses(config, kTwentyOfSft, qwen2,
                       {{.cp = 4, .cp_form = kRing}, {.cp = 2, .pp = 2, .cp_form = kRing}});
}

TEST(Ranks, ProductsOfThreeAxesEqualOneProcess) {
  expect_equal_courses(config_of({}), kTwentyOfSft, shape_of(/*tied=*/true),
                       {{.tp = 2, .pp = 2, .dp = 2}, {.tp = 2, .cp = 2, .dp = 2}});
}

// More stages than two, of which the middle ones have neither embedding nor head, and more micro-batches than stages.
TEST(Ranks, PipelinesOfManyStagesEqualOneProcess) {
  for (const bool tied : {true, false}) {
    model::ModelConfig shape = shape_of(tied);
    shape.num_layers = 5;
    TrainConfig config = config_of({});
    config.recompute_layers = 1;
    const Steps steps = [](Trainer& trainer, Course& course) {
      for (uint64_t step = 0; step < 10; ++step)
        course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(19, 60 + step)));
    };
    expect_equal_courses(config, steps, shape, {{.pp = 3}, {.pp = 4}});
  }
}

// A stage adds up what one process adds up, in its order, and the norm's sum does not depend on how it is divided: in
// fp32 it did, by 1e-7, from which the clip and Adam made 1e-6 of later norms.
TEST(Ranks, PipelinesOfUntiedModelsHaveTheBitsOfOneProcess) {
  model::ModelConfig shape = shape_of(/*tied=*/false);
  shape.num_layers = 5;
  const Steps steps = [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 6; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(19, 60 + step)));
  };
  const Course alone = courses(config_of({}), shape, steps)[0];
  for (const ParallelDims& dims : {ParallelDims{.pp = 2}, {.pp = 4}, {.pp = 2, .pp_chunks = 2}}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name_of(dims));
    for (const Course& course : courses(config_of(dims), shape, steps)) {
      for (size_t i = 0; i < alone.steps.size(); ++i)
        EXPECT_EQ(alone.steps[i].grad_norm, course.steps[i].grad_norm) << "step " << i;
      EXPECT_EQ(largest(alone, course), 0);
    }
  }
}

// Micro-batches go through all stages several times, and their number is seldom one of stages.
TEST(Ranks, InterleavedPipelinesEqualOneProcess) {
  model::ModelConfig shape = shape_of(/*tied=*/true);
  shape.num_layers = 7;
  TrainConfig config = config_of({});
  config.lr = 1e-4;
  config.recompute_layers = 2;
  const Steps sft = [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 20; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(9 + step % 4, 60 + step)));
  };
  expect_equal_courses(config, sft, shape,
                       {{.pp = 2, .pp_chunks = 2},
                        {.pp = 2, .pp_chunks = 3},
                        {.pp = 3, .pp_chunks = 2},
                        {.pp = 2, .pp_chunks = 2, .dp = 2},
                        {.tp = 2, .pp = 2, .pp_chunks = 2}});
  shape.tie_embeddings = false;
  expect_equal_courses(config, sft, shape, {{.cp = 2, .pp = 2, .pp_chunks = 3}});
}

// Biases, of which o's is added once, and no norms of heads; what recomputing computes again.
TEST(Ranks, OtherModelsEqualOneProcess) {
  model::ModelConfig qwen2 = shape_of(/*tied=*/false);
  qwen2.family = model::Family::kQwen2;
  qwen2.qk_norm = false;
  qwen2.attention_bias = true;
  TrainConfig config = config_of({});
  config.recompute_layers = 1;
  expect_equal_courses(config, kTwentyOfSft, qwen2, {{.tp = 2}, {.tp = 2, .cp = 2}});
  model::ModelConfig biases = shape_of(/*tied=*/true);
  biases.attention_bias = true;
  expect_equal_courses(config_of({}), kTwentyOfSft, biases, {{.tp = 2, .cp = 2}});
}

TEST(Ranks, TwentyStepsOfRlEqualOneProcess) {
  TrainConfig config = config_of({});
  config.lr = 1e-4;
  config.loss.kl_coef = 0.05;
  config.loss.entropy_coef = 0.01;
  config.optimizer_steps_per_batch = 2;
  const Steps steps = [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 20; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kRl, sample_sequences(11, 70 + step)));
  };
  std::vector<ParallelDims> layouts = kLayouts;
  for (const ParallelDims& ring : {ParallelDims{.cp = 3, .cp_form = kRing},
                                   {.cp = 2, .dp = 2, .cp_form = kRing},
                                   {.tp = 2, .cp = 2, .cp_form = kRing}})
    layouts.push_back(ring);
  expect_equal_courses(config, steps, shape_of(/*tied=*/true), layouts);
  model::ModelConfig deep = shape_of(/*tied=*/true);
  deep.num_layers = 6;
  expect_equal_courses(config, steps, deep,
                       {{.pp = 2, .pp_chunks = 2}, {.pp = 3, .pp_chunks = 2}, {.pp = 2, .pp_chunks = 2, .dp = 2}});
  config.loss.objective = Objective::kGspo;  // whose ratio is a sequence's
  expect_equal_courses(config, steps, shape_of(/*tied=*/false),
                       {{.cp = 2, .dp = 2}, {.cp = 3, .cp_form = kRing}, {.pp = 2}});
}

// Data-parallel ranks share out what begins alike in parts, so that they may compute a prompt each.
TEST(Ranks, SharedPrefixesEqualOneProcess) {
  TrainConfig config = config_of({});
  config.max_tokens_per_micro_batch = 128;
  const Steps steps = [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 6; ++step) {
      StepMetrics metrics = trainer.train_step(StepKind::kRl, sample_groups(3, 5, 40, 30 + step));
      EXPECT_GT(metrics.shared_tokens, metrics.tokens / 8);
      metrics.tokens += metrics.shared_tokens;
      course.steps.push_back(metrics);
    }
  };
  expect_equal_courses(config, steps, shape_of(/*tied=*/true));
}

TEST(Ranks, WhatIsWaitedForBetweenStepsIsInNone) {
  TrainConfig config = config_of({.dp = 2});
  std::atomic<parallel::World*> first = nullptr;
  parallel::run_ranks(config.parallel, [&](parallel::World& world) {
    course_of(config, &world, shape_of(true), [&](Trainer& trainer, Course&) {
      trainer.train_step(StepKind::kSft, sample_sequences(9, 40));
      // Rank 1 comes once rank 0 has waited for it for longer than a step takes.
      if (world.rank() == 0) first = &world;
      else
        while (first == nullptr || first.load()->recorder().waits_s() < 1) std::this_thread::yield();
      world.groups().zero->broadcast(at::zeros({1}), 1, "a publication")->wait();
      const StepMetrics metrics = trainer.train_step(StepKind::kSft, sample_sequences(9, 40));
      EXPECT_LE(metrics.seconds_communication, metrics.seconds);
    });
  });
}

// A rank has no micro-batch, or a micro-batch leaves a rank without a target.
TEST(Ranks, OneWithoutWorkTakesPart) {
  std::vector<ParallelDims> layouts = kLayouts;
  layouts.push_back({.cp = 4, .cp_form = kRing});
  expect_equal_courses(
      config_of({}),
      [](Trainer& trainer, Course& course) {
        for (uint64_t step = 0; step < 3; ++step) {
          auto sequences = sample_sequences(1, 20 + step);
          for (size_t t = 1; t + 1 < sequences[0].tokens.size(); ++t) sequences[0].loss_mask[t] = false;
          course.steps.push_back(trainer.train_step(StepKind::kSft, sequences));
        }
      },
      shape_of(/*tied=*/true), layouts);
}

// Of an RL batch without a target there is nothing to sum, and no figure of any rank.
TEST(Ranks, AStepWithoutAnUpdateIsOneOfAllRanks) {
  expect_equal_courses(config_of({}),
                       [](Trainer& trainer, Course& course) {
                         for (uint64_t step = 0; step < 3; ++step) {
                           auto sequences = sample_sequences(5, 90 + step);
                           for (TrainSequence& s : sequences) {
                             if (step == 1) s.loss_mask.assign(s.tokens.size(), 0);
                           }
                           course.steps.push_back(trainer.train_step(StepKind::kRl, sequences));
                           EXPECT_EQ(course.steps.back().skipped_updates, step == 1 ? 1 : 0);
                         }
                       },
                       shape_of(/*tied=*/false), {{.dp = 2}, {.tp = 2}, {.cp = 2}, {.pp = 2}});
}

// Then the rows of the embedding that have a gradient are summed alone.
TEST(Ranks, FewTokensAreSummedAsAllAre) {
  expect_equal_courses(config_of({}),
                       [](Trainer& trainer, Course& course) {
                         for (uint64_t step = 0; step < 10; ++step) {
                           auto sequences = sample_sequences(5, 90 + step);
                           for (TrainSequence& sequence : sequences) {
                             for (int64_t& token : sequence.tokens) token = 7 * (token % 8);
                           }
                           course.steps.push_back(trainer.train_step(StepKind::kSft, sequences));
                         }
                       },
                       shape_of(/*tied=*/false), {{.dp = 3}, {.tp = 2, .dp = 2}});
}

TEST(Ranks, WhatCannotBeSharedOutIsRefused) {
  const auto refused = [](const ParallelDims& dims, const model::ModelConfig& shape) {
    try {
      courses(config_of(dims), shape, [](Trainer&, Course&) {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refused({.tp = 2}, sample_config()), testing::HasSubstr("vocab_size of 61 cannot be divided"));
  EXPECT_THAT(refused({.cp = 3}, shape_of(true)),
              testing::AllOf(testing::HasSubstr("parallel.cp 3: 4 heads"), testing::HasSubstr("cp_form ring")));
  EXPECT_THAT(refused({.pp = 3}, shape_of(true)), testing::HasSubstr("parallel.pp 3: the model has 2 layers"));
  EXPECT_THAT(refused({.pp = 2, .pp_chunks = 2}, shape_of(true)),
              testing::HasSubstr("parallel.pp 2 x pp_chunks 2: the model has 2 layers"));
}

TEST(Ranks, WhatIsNoStepIsRefusedByAllAndTheNextOneIsTaken) {
  const auto all = courses(config_of({.dp = 2}), shape_of(true), [](Trainer& trainer, Course& course) {
    auto wrong = sample_sequences(3, 5);
    wrong[1].tokens[2] = 1000;
    EXPECT_THROW(trainer.train_step(StepKind::kSft, wrong), Error);
    course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(4, 6)));
  });
  expect_same(all[0], all[1]);
}

// Checkpoints as ranks of any layout write and read them.
class RanksCheckpoint : public testing::Test {
 protected:
  RanksCheckpoint() : folder("ranks") {
    model::ModelConfig shape = shape_of(true);
    shape.num_layers = 4;
    write_file_atomic(folder.path() / "config.json", to_json(shape).dump());
  }
  TrainConfig config(const ParallelDims& dims) const {
    TrainConfig config = base;
    config.parallel = config_of(dims).parallel;
    config.model = folder.path();
    config.init_random = true;
    return config;
  }
  // Each rank goes on from `from`, where it is given, takes so many steps, and writes its part.
  fs::path write(const ParallelDims& dims, const std::string& to, uint64_t steps, const fs::path& from = {}) const {
    on_ranks(dims, [&](parallel::World* world) {
      const auto trainer = from.empty() ? make_trainer(config(dims), {}, world)
                                        : resume_trainer(config(dims), from, world);
      for (uint64_t step = 0; step < steps; ++step) trainer->train_step(kind, sample_sequences(7, 30 + step));
      if (world == nullptr) write_checkpoint(folder.path() / to, contents_of(*trainer, {}));
      else if (world->rank() > 0) write_for_rank_0(*world, 1, Snapshot().take(*trainer));
      else write_checkpoint(folder.path() / to, contents_of(*trainer, {}, std::make_shared<OtherRanks>(*world, 1)));
    });
    return folder.path() / to;
  }
  void on_ranks(const ParallelDims& dims, const std::function<void(parallel::World*)>& work) const {
    if (dims.world() == 1) work(nullptr);
    else parallel::run_ranks(config(dims).parallel, [&](parallel::World& world) { work(&world); });
  }
  // As one process reads and writes it.
  std::map<std::string, at::Tensor> contents(const fs::path& checkpoint) const {
    const fs::path alone = write({}, checkpoint.filename().string() + "-alone", 0, checkpoint);
    std::map<std::string, at::Tensor> tensors;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      const model::SafetensorsFile of(alone / file);
      for (const std::string& name : of.names()) tensors[name] = of.tensor(name).clone();
    }
    fs::remove_all(alone);
    return tensors;
  }
  std::string refusal(const ParallelDims& dims, const fs::path& checkpoint) const {
    try {
      on_ranks(dims, [&](parallel::World* world) { resume_trainer(config(dims), checkpoint, world); });
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
      return error.what();
    }
    return "taken";
  }
  TemporaryFolder folder;
  TrainConfig base = config_of({});
  StepKind kind = StepKind::kSft;
};

// Weights and the optimizer's state are those of the ranks that wrote it, to the bit.
TEST_F(RanksCheckpoint, IsReadUnderAnyLayout) {
  for (const ParallelDims& written : {ParallelDims{.dp = 3}, ParallelDims{.tp = 2, .dp = 2}, ParallelDims{.cp = 2},
                                      ParallelDims{.tp = 2, .pp = 2}, ParallelDims{.pp = 2, .pp_chunks = 2}}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "written by " + name_of(written));
    const fs::path first = write(written, "first", 3);
    EXPECT_TRUE(fs::exists(first / fmt::format("model-0000{0}-of-0000{0}.safetensors", written.world())));
    const auto expected = contents(first);
    for (const ParallelDims& other : {ParallelDims{.dp = 2}, ParallelDims{.dp = 4}, ParallelDims{.tp = 2, .cp = 2},
                                      ParallelDims{.pp = 2, .dp = 2}, ParallelDims{.pp = 2, .pp_chunks = 2}}) {
      const testing::ScopedTrace read(__FILE__, __LINE__, "read by " + name_of(other));
      const auto again = contents(write(other, "second", 0, first));
      EXPECT_EQ(again.size(), expected.size());
      for (const auto& [name, tensor] : again) EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
      fs::remove_all(folder.path() / "second");
    }
    fs::remove(first / fmt::format("optimizer-00002-of-0000{}.safetensors", written.world()));
    EXPECT_THAT(refusal({}, first), testing::HasSubstr("optimizer"));
    fs::remove_all(first);
  }
}

// A step without a clip leaves beta1 of the first moment and adds (1 - beta1) times the gradient: of each tensor, where
// courses compare the norm of all of them. The ranks begin with one process's weights and moments, to the bit. Later a
// tensor's gradient is a difference of larger numbers: what is less than a tenth of the whole counts as a tenth.
TEST_F(RanksCheckpoint, EveryTensorsGradientEqualsOneProcesss) {
  std::vector<ParallelDims> layouts = kLayouts;
  for (const ParallelDims& other : {ParallelDims{.cp = 2, .cp_form = kRing},
                                    {.cp = 3, .cp_form = kRing},
                                    {.pp = 2, .pp_chunks = 2},
                                    {.tp = 2, .cp = 2, .dp = 2}})
    layouts.push_back(other);
  base.clip_grad = 0;
  base.reference_model = write({}, "reference", 0);
  for (const auto& [of, steps] : {std::pair{StepKind::kSft, 0}, {StepKind::kSft, 19}, {StepKind::kRl, 19}}) {
    kind = of;
    if (kind == StepKind::kRl) base.loss.kl_coef = 0.05, base.loss.entropy_coef = 0.01;
    const fs::path start = write({}, "start", static_cast<uint64_t>(steps));
    const auto before = contents(start), alone = contents(write({}, "alone", 1, start));
    std::map<std::string, double> added;
    double square = 0;
    for (const auto& [name, moment] : alone) {
      if (!name.starts_with("first.")) continue;
      added[name] = (moment - base.beta1 * before.at(name)).norm().item<double>();
      square += added[name] * added[name];
    }
    EXPECT_GT(added.size(), 4 * 9);
    const double least = steps == 0 ? 0 : 0.1 * std::sqrt(square);
    for (const ParallelDims& dims : layouts) {
      const testing::ScopedTrace trace(
          __FILE__, __LINE__, fmt::format("{} after {} steps, {}", tritonforge::name_of(kind), steps, name_of(dims)));
      const auto ranks = contents(write(dims, "ranks", 1, start));
      for (const auto& [name, norm] : added) {
        EXPECT_GT(norm, 0) << name;
        EXPECT_LE((ranks.at(name) - alone.at(name)).norm().item<double>(), 1e-6 * std::max(norm, least)) << name;
      }
      fs::remove_all(folder.path() / "ranks");
    }
    for (const char* done : {"start", "alone"}) fs::remove_all(folder.path() / done);
  }
}

// 2 x 2 x 1 of tp, pp and dp, then 1 x 1 x 4, then one process: each takes a step, as one that reads all of them does.
TEST_F(RanksCheckpoint, GoesFromLayoutToLayoutAsOneProcessDoes) {
  const auto first = write({.tp = 2, .pp = 2}, "first", 2);
  const auto straight = contents(write({.tp = 2, .pp = 2}, "straight", 0, first));
  for (const ParallelDims& dims : {ParallelDims{.dp = 4}, ParallelDims{}}) {
    const auto again = contents(write(dims, "again", 0, first));
    for (const auto& [name, tensor] : straight) EXPECT_TRUE(at::equal(tensor, again.at(name))) << name;
    fs::remove_all(folder.path() / "again");
  }
  write({}, "third", 1, write({.dp = 4}, "second", 1, first));
  EXPECT_EQ(resume_trainer(config({}), folder.path() / "third")->state().step, 4);
}

TEST_F(RanksCheckpoint, AFileOfWeightsThatIsNotItsOwnIsNamed) {
  const ParallelDims dims{.tp = 2, .pp = 2};
  const fs::path path = write(dims, "first", 1), later = write(dims, "later", 1, path);
  for (int rank = 1; rank <= 4; ++rank) {
    const std::string name = fmt::format("model-0000{}-of-00004.safetensors", rank);
    const std::string whole = read_file(path / name), index = (path / "model.safetensors.index.json").string();
    const auto expect = [&](const std::string& what) {
      for (const ParallelDims& reader : {dims, ParallelDims{.dp = 2}, ParallelDims{}})
        EXPECT_THAT(refusal(reader, path), testing::AllOf(testing::HasSubstr(name), testing::HasSubstr(what)));
    };
    fs::remove(path / name);
    expect("is missing");
    write_file_atomic(path / name, whole.substr(0, whole.size() / 2));
    expect("truncated");
    write_file_atomic(path / name, whole.substr(0, whole.size() - 1) + static_cast<char>(whole.back() ^ 1));
    expect("the file is damaged");
    write_file_atomic(path / name, read_file(later / name));  // of the same tensors, a step later
    expect("the file is damaged");
    write_file_atomic(path / name, read_file(path / fmt::format("model-0000{}-of-00004.safetensors", rank % 4 + 1)));
    expect("is missing, though " + index + " lists it there");
    write_file_atomic(path / name, whole);
  }
  EXPECT_EQ(refusal(dims, path), "taken");
}

TEST_F(RanksCheckpoint, ARankThatCannotWriteFailsItByNameAndLeavesNothing) {
  const ParallelDims dims{.tp = 2, .dp = 2};
  std::string said = "written";
  parallel::run_ranks(config(dims).parallel, [&](parallel::World& world) {
    const auto trainer = make_trainer(config(dims), {}, &world);
    if (world.rank() > 0) {
      RankPart part = part_of(*trainer, true);
      for (model::WeightFile& file : part.weights) file.name = (world.rank() == 2 ? "no folder/" : "") + file.name;
      return write_for_rank_0(world, 1, part);
    }
    try {
      write_checkpoint(folder.path() / "first", contents_of(*trainer, {}, std::make_shared<OtherRanks>(world, 1)));
    } catch (const Error& error) {
      said = error.what();
    }
  });
  EXPECT_THAT(said, testing::AllOf(testing::HasSubstr("rank 2: "), testing::HasSubstr("no folder")));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::HasSubstr("first")));
}

// Rank 0 would go on, and meet them with another collective than theirs.
TEST_F(RanksCheckpoint, ARankThatLeavesTheOthersInACollectiveEndsTheJob) {
  const Scarce memory;
  struct Case {
    ParallelDims dims;
    std::string what;
    std::function<void(Trainer&)> gather;
  };
  const auto whole = [](Trainer& trainer) { trainer.rank() == 0 ? (void)trainer.whole_model() : trainer.give_model(); };
  for (const auto& [dims, what, gather] :
       {Case{{.tp = 2}, "the whole model", whole}, Case{{.pp = 2}, "the whole model", whole},
        Case{{.tp = 2}, "a rank's files", [](Trainer& trainer) { part_of(trainer, true); }},
        Case{{.tp = 2}, "a checkpoint's copy", [](Trainer& trainer) { Snapshot().take(trainer); }}}) {
    parallel::Failures failures;
    parallel::WorldOptions options;
    options.beat_s = 0.05;
    const auto work = [&](parallel::World& world) {
      const auto trainer = make_trainer(config(dims), {}, &world);
      if (world.rank() > 0) return gather(*trainer);
      Scarce::left = 0;
      EXPECT_THROW(gather(*trainer), std::bad_alloc);
      Scarce::left = Scarce::kPlenty;
      EXPECT_THAT(failures.wait_for(1), testing::Contains(testing::HasSubstr("rank 0: " + what + ": std::bad_alloc")));
    };
    EXPECT_ANY_THROW(parallel::run_ranks(config(dims).parallel, work, &failures, options)) << "rank 1 is left alone";
  }
}

TEST(Ranks, CommandsSurviveTheirBytes) {
  const RankCommand command{.what = RankCommand::What::kStep,
                            .number = 12,
                            .kind = StepKind::kRl,
                            .batch = {3, sample_sequences(4, 9), {.groups = 2, .reward_mean = 0.25}},
                            .has_figures = true};
  const RankCommand again = rank_command(to_bytes(command));
  EXPECT_EQ(again.what, command.what);
  EXPECT_EQ(again.number, 12);
  EXPECT_EQ(again.kind, StepKind::kRl);
  EXPECT_TRUE(again.has_figures);
  EXPECT_EQ(again.batch, command.batch);
  EXPECT_THROW(rank_command("{\"what\":\"dance\"}\n"), Error);
  EXPECT_THROW(rank_command(""), Error);
}

}  // namespace
}  // namespace tritonforge::train
