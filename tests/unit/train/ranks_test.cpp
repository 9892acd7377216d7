// Data-parallel ranks against one process: threads with a trainer each, in fp32 over Gloo.
#include "train/ranks.h"

#include <gtest/gtest.h>

#include <mutex>

#include "model/weights.h"
#include "train/optimizer_files.h"
#include "unit/parallel/run_ranks.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

struct Course {
  std::vector<StepMetrics> steps;
  std::vector<at::Tensor> weights;
};

TrainConfig config_of(int64_t dp) {
  TrainConfig config = sample_train_config();
  config.parallel.dp = dp;
  config.parallel.timeout_s = 60;
  config.max_tokens_per_micro_batch = 64;
  return config;
}

std::vector<at::Tensor> weights_of(const model::Model& model) {
  std::vector<at::Tensor> weights;
  for (const auto& [name, tensor] : model.named_parameters()) weights.push_back(tensor.detach().clone());
  return weights;
}

using Steps = std::function<void(Trainer&, Course&)>;

Course course_of(const TrainConfig& config, parallel::World* world, bool tied, const Steps& steps) {
  model::Model model(sample_config(tied), at::kFloat, at::kCPU);
  model.init_random(3, 0.3);
  std::optional<model::Model> reference;
  if (config.loss.kl_coef > 0) {
    reference.emplace(sample_config(tied), at::kFloat, at::kCPU);
    reference->init_random(3, 0.3);  // the start weights: another seed's have gradients that Adam throws about
  }
  Trainer trainer(config, std::move(model), std::move(reference), {}, world);
  Course course;
  steps(trainer, course);
  course.weights = weights_of(trainer.model());
  return course;
}

std::vector<Course> courses(TrainConfig config, bool tied, const Steps& steps) {
  std::vector<Course> courses(static_cast<size_t>(config.parallel.world()));
  if (config.parallel.world() == 1) return {course_of(config, nullptr, tied, steps)};
  parallel::run_ranks(config.parallel, [&](parallel::World& world) {
    courses[static_cast<size_t>(world.rank())] = course_of(config, &world, tied, steps);
  });
  return courses;
}

double largest(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

void expect_equal_courses(const TrainConfig& one, const Steps& steps, bool tied = true) {
  const Course alone = courses(one, tied, steps)[0];
  for (const int64_t dp : {2, 3}) {
    TrainConfig config = one;
    config.parallel.dp = dp;
    const std::vector<Course> all = courses(config, tied, steps);
    for (const Course& course : all) {
      ASSERT_EQ(course.steps.size(), alone.steps.size());
      for (size_t i = 0; i < alone.steps.size(); ++i) {
        const StepMetrics &a = alone.steps[i], &b = course.steps[i];
        EXPECT_NEAR(a.loss, b.loss, 1e-6 * std::max(1.0, std::fabs(a.loss))) << "step " << i << " dp " << dp;
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-6 * std::max(1.0, a.grad_norm)) << "step " << i << " dp " << dp;
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
      EXPECT_LT(largest(alone.weights, course.weights), 2e-5) << dp;
      EXPECT_EQ(largest(all[0].weights, course.weights), 0) << "the ranks' weights differ, dp " << dp;
    }
  }
}

TEST(Ranks, TwentyStepsOfSftEqualOneProcess) {
  const Steps steps = [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 20; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(9, 40 + step)));
  };
  expect_equal_courses(config_of(1), steps);
  expect_equal_courses(config_of(1), steps, /*tied=*/false);
}

TEST(Ranks, TwentyStepsOfRlEqualOneProcess) {
  TrainConfig config = config_of(1);
  config.lr = 1e-4;
  config.loss.kl_coef = 0.05;
  config.loss.entropy_coef = 0.01;
  config.optimizer_steps_per_batch = 2;
  expect_equal_courses(config, [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 20; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kRl, sample_sequences(11, 70 + step)));
  });
}

TEST(Ranks, OneWithoutAMicroBatchTakesPart) {
  expect_equal_courses(config_of(1), [](Trainer& trainer, Course& course) {
    for (uint64_t step = 0; step < 3; ++step)
      course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(1, 20 + step)));
  });
}

// Then the rows of the embedding that have a gradient are summed alone.
TEST(Ranks, FewTokensAreSummedAsAllAre) {
  expect_equal_courses(
      config_of(1),
      [](Trainer& trainer, Course& course) {
        for (uint64_t step = 0; step < 10; ++step) {
          auto sequences = sample_sequences(5, 90 + step);
          for (TrainSequence& sequence : sequences) {
            for (int64_t& token : sequence.tokens) token = 7 * (token % 8);
          }
          course.steps.push_back(trainer.train_step(StepKind::kSft, sequences));
        }
      },
      /*tied=*/false);
}

TEST(Ranks, WhatIsNoStepIsRefusedByAllAndTheNextOneIsTaken) {
  const auto all = courses(config_of(2), true, [](Trainer& trainer, Course& course) {
    auto wrong = sample_sequences(3, 5);
    wrong[1].tokens[2] = 1000;
    EXPECT_THROW(trainer.train_step(StepKind::kSft, wrong), Error);
    course.steps.push_back(trainer.train_step(StepKind::kSft, sample_sequences(4, 6)));
  });
  EXPECT_EQ(largest(all[0].weights, all[1].weights), 0);
}

// A checkpoint of three ranks, read by one, two and three: the state is that of one process, to the bit.
TEST(Ranks, ACheckpointIsReadUnderAnyLayout) {
  const TemporaryFolder folder("ranks");
  write_file_atomic(folder.path() / "config.json", to_json(sample_config()).dump());
  const fs::path checkpoint = folder.path() / "checkpoint";
  TrainConfig config = config_of(3);
  config.model = folder.path();
  config.init_random = true;
  const auto steps = [](Trainer& trainer, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step)
      trainer.train_step(StepKind::kSft, sample_sequences(7, 30 + static_cast<uint64_t>(step)));
  };
  StatePieces whole;  // of the three, put together
  std::mutex mutex;
  parallel::run_ranks(config.parallel, [&](parallel::World& world) {
    const auto trainer = make_trainer(config, {}, &world);
    steps(*trainer, 0, 3);
    if (world.rank() == 0) {
      fs::create_directories(checkpoint);
      model::save_model(trainer->model(), checkpoint);
    }
    world.host().all_reduce(at::zeros({1}), "the folder is there")->wait();
    const StatePieces pieces = trainer->optimizer().state();
    write_optimizer(pieces, checkpoint, world.rank(), 3);
    const std::lock_guard lock(mutex);
    for (const StatePiece& piece : pieces) {
      whole.push_back(piece);
      whole.back().values = piece.values.clone();
    }
  });
  for (const int64_t dp : {1, 2, 3}) {
    TrainConfig other = config;
    other.parallel.dp = dp;
    const auto read = [&](parallel::World* world) {
      const auto trainer = make_trainer(other, checkpoint, world);
      OptimizerFiles files(checkpoint, Json::object());
      for (const StatePiece& piece : trainer->optimizer().state()) {
        const at::NoGradGuard no_grad;
        files.read(piece);
        for (const StatePiece& written : whole) {
          if (written.name != piece.name) continue;
          const int64_t from = std::max(written.begin, piece.begin),
                        to = std::min(written.begin + written.values.numel(), piece.begin + piece.values.numel());
          if (from >= to) continue;
          EXPECT_TRUE(at::equal(written.values.view({-1}).narrow(0, from - written.begin, to - from),
                                piece.values.view({-1}).narrow(0, from - piece.begin, to - from)))
              << piece.name << " dp " << dp;
        }
      }
    };
    if (dp == 1) read(nullptr);
    else parallel::run_ranks(other.parallel, [&](parallel::World& world) { read(&world); });
  }
  fs::remove(checkpoint / "optimizer-00002-of-00003.safetensors");
  const auto trainer = make_trainer(
      [&] {
        TrainConfig alone = config;
        alone.parallel.dp = 1;
        return alone;
      }(),
      checkpoint);
  OptimizerFiles files(checkpoint, Json::object());
  EXPECT_THROW(
      {
        for (const StatePiece& piece : trainer->optimizer().state()) files.read(piece);
      },
      Error);
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
