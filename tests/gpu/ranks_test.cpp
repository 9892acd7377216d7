// Ranks over NCCL, a thread and a GPU each, against one GPU. Skips where there is one.
#include <ATen/ATen.h>

#include <map>

#include "gpu/fixture.h"
#include "gpu/peer_copies.h"
#include "gpu/ranks.h"
#include "kernels/device.h"
#include "train/pipeline.h"
#include "train/rank_part.h"
#include "train/trainer.h"
#include "train/weight_shards.h"
#include "unit/parallel/run_ranks.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

class RanksOnGpus : public tritonforge::gpu::GpuTest {};

struct Course {
  std::vector<double> losses, norms;
  at::Tensor all, replicas;  // weights of this rank, and of them what every rank has; on the CPU
  at::Tensor whole;          // of the first of a pipeline's: the model's, put together
};

at::Tensor flat(const model::Model& model) {
  std::vector<at::Tensor> all;  // what lies between them in the arena is of no meaning
  for (const auto& [name, tensor] : model.named_parameters()) all.push_back(tensor.flatten());
  return at::cat(all).cpu();
}

void expect_part_of(const model::Model& whole, const model::Model& part, const model::TensorParallel& at) {
  EXPECT_EQ(whole.device(), part.device());
  const auto wholes = whole.named_parameters(), parts = part.named_parameters();
  ASSERT_EQ(wholes.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, tensor] = parts[i];
    const model::TensorPart where = model::tensor_part(name, tensor.sizes(), at);
    EXPECT_EQ(wholes[i].second.sizes(), where.whole) << name;
    EXPECT_TRUE(at::equal(where.of(wholes[i].second), tensor)) << name;
  }
}

// What a rank would write of a checkpoint: with what the others have of it. whole: where this rank has it.
void expect_shard_of(Trainer& trainer, const model::TensorParallel& at, const model::Model* whole) {
  std::map<std::string, at::Tensor> parts, wholes;
  for (const auto& [name, tensor] : trainer.model().named_parameters()) parts.emplace(name, tensor.cpu());
  if (whole != nullptr) {
    for (const auto& [name, tensor] : whole->named_parameters()) wholes.emplace(name, tensor.cpu());
  }
  Snapshot snapshot;
  for (const RankPart& part : {part_of(trainer, false), snapshot.take(trainer)}) {
    for (const auto& [name, tensor] : shard_of(part.weights, part.rank)) {
      EXPECT_TRUE(tensor.is_cpu()) << name;
      const at::Tensor& mine = parts.at(name);
      EXPECT_TRUE(at::equal(model::tensor_part(name, mine.sizes(), at).of(tensor), mine)) << name;
      if (whole != nullptr) {
        EXPECT_TRUE(at::equal(tensor, wholes.at(name))) << name;
      }
    }
  }
}

TrainConfig course_config() {
  TrainConfig config = sample_train_config();
  config.dtype = "bfloat16";
  config.lr = 1e-3;
  config.deterministic = true;
  config.max_tokens_per_micro_batch = 512;
  return config;
}

Course course_of(TrainConfig config, parallel::World* world, int64_t gpu) {
  config.device = "cuda:" + std::to_string(gpu);
  const at::Device device = kernels::open_device(config.device);
  tritonforge::gpu::check_cuda(tritonforge::gpu::open_cuda_library().set_device(device.index()));
  const parallel::Coordinates place = world != nullptr ? world->at() : parallel::Coordinates{};
  const model::TensorParallel at{place.tp, config.parallel.tp};
  model::ModelConfig shape = tritonforge::gpu::small_config(model::Family::kQwen3);
  shape.vocab_size = 1008;  // of which a half is a width of the kernels, too
  model::Model model(model::stage_of(model::part_of(shape, at.size), stage_at(config.parallel, place)), at::kBFloat16,
                     device);
  model::init_random_part(model, at, 3, 0.05);
  Trainer trainer(config, std::move(model), std::nullopt, {}, world);
  Course course;
  for (uint64_t step = 0; step < 20; ++step) {
    const StepMetrics metrics = trainer.train_step(StepKind::kSft, sample_sequences(40, 50 + step));
    course.losses.push_back(metrics.loss);
    course.norms.push_back(metrics.grad_norm);
  }
  if (config.parallel.pp > 1) {
    if (place.pp > 0) trainer.give_model();
    else course.whole = flat(trainer.whole_model());
  }
  if (config.parallel.tp > 1) {
    const model::Model* whole = nullptr;
    if (place.tp > 0) trainer.give_model();
    else expect_part_of(*(whole = &trainer.whole_model()), trainer.model(), at);
    expect_shard_of(trainer, at, whole);
  }
  std::vector<at::Tensor> replicas;
  for (const auto& [name, tensor] : trainer.model().named_parameters())
    if (model::tensor_part(name, tensor.sizes(), at).replica) replicas.push_back(tensor.flatten());
  course.all = flat(trainer.model());
  course.replicas = at::cat(replicas).cpu();
  return course;
}

bool two_devices() {
  int devices = 0;
  tritonforge::gpu::check_cuda(tritonforge::gpu::open_cuda_library().device_count(&devices));
  return devices >= 2;
}

std::vector<Course> courses_of(const TrainConfig& config) {
  std::vector<Course> ranks(static_cast<size_t>(config.parallel.world()));
  parallel::run_ranks(
      config.parallel,
      [&](parallel::World& world) {
        ranks[static_cast<size_t>(world.rank())] = course_of(config, &world, world.rank());
      },
      nullptr, {}, [](int64_t rank) { return kernels::open_device("cuda:" + std::to_string(rank)); });
  return ranks;
}

TEST_F(RanksOnGpus, TrainAsOneGpuWithinBfloat16AndTheSameTwice) {
  if (!two_devices()) GTEST_SKIP() << "one GPU: ranks over NCCL need two";
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  std::map<std::string, at::Tensor> of_fp32;  // by axis
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = course_config();
    config.optimizer_state = states;
    const Course alone = course_of(config, nullptr, 0);
    EXPECT_LT(alone.losses.back(), 0.98 * alone.losses.front());
    for (const auto& [axis, dims] :
         {std::pair{"dp", parallel::ParallelDims{.dp = 2}}, std::pair{"tp", parallel::ParallelDims{.tp = 2}},
          std::pair{"pp", parallel::ParallelDims{.pp = 2}}, std::pair{"cp", parallel::ParallelDims{.cp = 2}},
          std::pair{"ring", parallel::ParallelDims{.cp = 2, .cp_form = parallel::CpForm::kRing}}}) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, axis);
      config.parallel = dims;
      std::vector<std::vector<Course>> runs;
      for (int run = 0; run < 2; ++run) runs.push_back(courses_of(config));
      for (size_t step = 0; step < alone.losses.size(); ++step) {
        EXPECT_NEAR(runs[0][0].losses[step], alone.losses[step], 0.01 * alone.losses[step]) << "step " << step;
        EXPECT_NEAR(runs[0][0].norms[step], alone.norms[step], 0.05 * alone.norms[step]) << "step " << step;
      }
      if (dims.pp == 1) {
        EXPECT_TRUE(at::equal(runs[0][0].replicas, runs[0][1].replicas)) << "the ranks' weights differ";
      }
      if (dims.tp * dims.pp == 1) {
        EXPECT_TRUE(at::equal(runs[0][0].all, runs[0][1].all)) << "the ranks' weights differ";
      }
      EXPECT_TRUE(at::equal(runs[0][0].all, runs[1][0].all)) << "two runs differ";
      if (states == OptimizerState::kFp32) of_fp32[axis] = runs[0][0].all;
      if (states == OptimizerState::kCpu) {
        EXPECT_TRUE(at::equal(runs[0][0].all, of_fp32[axis])) << "where the states are changes a bit";
      }
      fmt::print("{} {}: loss of the last step {:.5f} on one GPU, {:.5f} on two; norm {:.5f}, {:.5f}\n", axis,
                 name_of(states), alone.losses.back(), runs[0][0].losses.back(), alone.norms.back(),
                 runs[0][0].norms.back());
    }
    config.parallel = {};
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TrainConfig two_processes(OptimizerState states, bool copies) {
  TrainConfig config = course_config();
  config.optimizer_state = states;
  config.parallel = {.dp = 2, .peer_copies = copies};
  return config;
}

// Two parts of a sum have no order, and each way rounds it once.
TEST_F(RanksOnGpus, GradientsAndWeightsByTheCopyEnginesChangeNoBit) {
  if (!two_devices()) GTEST_SKIP() << "one GPU: ranks need two";
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name_of(states).data());
    std::vector<Course> ways;
    for (const bool copies : {true, false}) {
      parallel::WorldOptions options;
      options.rendezvous = "127.0.0.1:" + std::to_string(free_port());
      ChildProcess child(parallel::second_rank(options.rendezvous, {"trains", copies ? parallel::kCopies : "nccl",
                                                                    std::to_string(static_cast<int>(states))}));
      const TrainConfig config = two_processes(states, copies);
      {
        parallel::World world(config.parallel, options, kernels::open_device("cuda:0"),
                              [](const std::string& why) { ADD_FAILURE() << why; });
        ways.push_back(course_of(config, &world, 0));
      }
      EXPECT_EQ(child.wait(Deadline::after(60)), 0);
    }
    EXPECT_EQ(ways[0].losses, ways[1].losses);
    EXPECT_EQ(ways[0].norms, ways[1].norms);
    EXPECT_TRUE(at::equal(ways[0].all, ways[1].all));  // those that the other rank has updated among them
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// A stage's kernels are those of one GPU, on the same rows. What is clipped is not: the norm is summed by stages.
TEST_F(RanksOnGpus, StagesWithoutClippingChangeNoBit) {
  if (!two_devices()) GTEST_SKIP() << "one GPU: ranks over NCCL need two";
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  for (const int64_t recompute : {0, 2}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, recompute);
    TrainConfig config = course_config();
    config.clip_grad = 0;
    config.recompute_layers = recompute;
    const Course alone = course_of(config, nullptr, 0);
    config.parallel = {.pp = 2};
    const std::vector<Course> ranks = courses_of(config);
    EXPECT_EQ(ranks[0].losses, alone.losses);
    EXPECT_TRUE(at::equal(ranks[0].whole, alone.all));
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace

int train_as_second_rank(const std::string& rendezvous, bool copies, int states) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  const TrainConfig config = two_processes(static_cast<OptimizerState>(states), copies);
  parallel::World world(config.parallel, parallel::as_second_rank(rendezvous), kernels::open_device("cuda"),
                        [](const std::string&) { std::_Exit(3); });
  course_of(config, &world, 0);
  return 0;
}

}  // namespace tritonforge::train
