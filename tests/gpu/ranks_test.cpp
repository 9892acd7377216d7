// Ranks over NCCL and the copy engines, a process and a GPU each, against one GPU. Skips where there is one.
#include <ATen/ATen.h>

#include <map>

#include "base/filesystem.h"
#include "base/json.h"
#include "base/options_json.h"
#include "gpu/fixture.h"
#include "gpu/peer_copies.h"
#include "gpu/ranks.h"
#include "kernels/device.h"
#include "model/weights.h"
#include "train/pipeline.h"
#include "train/rank_part.h"
#include "train/trainer.h"
#include "train/weight_shards.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

class RanksOnGpus : public tritonforge::gpu::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int devices = 0;
    tritonforge::gpu::check_cuda(api().device_count(&devices));
    if (devices < 2) GTEST_SKIP() << "one GPU: two ranks need two";
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    GpuTest::TearDown();
  }
};

struct Course {
  std::vector<double> losses, norms;
  std::vector<StepMetrics> steps;
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

// Of policy gradients as the CPU's test has them: a reference, clipped ratios of the second update, an entropy bonus.
TrainConfig rl_config(Objective objective) {
  TrainConfig config = course_config();
  config.lr = 1e-4;
  config.optimizer_steps_per_batch = 2;
  config.loss.objective = objective;
  config.loss.kl_coef = 0.05;
  config.loss.entropy_coef = 0.01;
  return config;
}

// Groups of samples of a prompt, which begin alike. The sampler's log-probs are near the random model's.
std::vector<TrainSequence> sequences_of(StepKind kind, uint64_t seed) {
  if (kind == StepKind::kSft) return sample_sequences(40, seed);
  std::vector<TrainSequence> sequences = sample_groups(5, 8, 40, seed);
  for (TrainSequence& sequence : sequences) {
    for (size_t t = 0; t < sequence.tokens.size(); ++t)
      if (sequence.loss_mask[t] != 0) sequence.old_log_probs[t] -= 5;
  }
  return sequences;
}

constexpr const char* kSecond = "second.safetensors";  // what courses_of() wants of the second rank

Course course_of(TrainConfig config, StepKind kind, parallel::World* world) {
  config.device = "cuda:0";
  const at::Device device = kernels::open_device(config.device);
  tritonforge::gpu::check_cuda(tritonforge::gpu::open_cuda_library().set_device(device.index()));
  const parallel::Coordinates place = world != nullptr ? world->at() : parallel::Coordinates{};
  const model::TensorParallel at{place.tp, config.parallel.tp};
  model::ModelConfig shape = tritonforge::gpu::small_config(model::Family::kQwen3);
  shape.vocab_size = 1008;  // of which a half is a width of the kernels, too
  const auto part = [&] {
    model::Model model(model::stage_of(model::part_of(shape, at.size), stage_at(config.parallel, place)), at::kBFloat16,
                       device);
    model::init_random_part(model, at, 3, 0.05);
    return model;
  };
  std::optional<model::Model> reference;
  if (config.loss.kl_coef > 0) reference = part();
  Trainer trainer(config, part(), std::move(reference), {}, world);
  Course course;
  for (uint64_t step = 0; step < 20; ++step) {
    course.steps.push_back(trainer.train_step(kind, sequences_of(kind, 50 + step)));
    course.losses.push_back(course.steps.back().loss);
    course.norms.push_back(course.steps.back().grad_norm);
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

// Of both ranks, the second by another process: of two threads one that asks the driver for something may wait for its
// own device, on which a collective waits for the other, which waits for the driver.
std::vector<Course> courses_of(const TrainConfig& config, StepKind kind) {
  const TemporaryFolder folder("tritonforge-second-rank");
  parallel::WorldOptions options;
  options.rendezvous = "127.0.0.1:" + std::to_string(free_port());
  ChildProcess second(parallel::second_rank(options.rendezvous, {"trains", options_to_json(config).dump(),
                                                                 std::string(name_of(kind)), folder.path().string()}));
  std::vector<Course> ranks(2);
  {
    parallel::World world(config.parallel, options, kernels::open_device("cuda:0"),
                          [](const std::string& why) { ADD_FAILURE() << why; });
    ranks[0] = course_of(config, kind, &world);
  }
  EXPECT_EQ(second.wait(Deadline::after(60)), 0);
  const model::SafetensorsFile file(folder.path() / kSecond);
  ranks[1].all = file.tensor("all").clone();
  ranks[1].replicas = file.tensor("replicas").clone();
  return ranks;
}

// A mean of advantages that all but cancel has no relative tolerance; the scores that it is of have.
void expect_near(const StepMetrics& one, const StepMetrics& ranks) {
  EXPECT_NEAR(ranks.loss, one.loss, one.policy ? 0.005 : 0.01 * one.loss);
  EXPECT_NEAR(ranks.grad_norm, one.grad_norm, 0.05 * one.grad_norm);
  EXPECT_NEAR(ranks.entropy, one.entropy, 0.01 * one.entropy);
  ASSERT_EQ(ranks.policy.has_value(), one.policy.has_value());
  if (!one.policy) return;
  EXPECT_NEAR(ranks.policy->kl, one.policy->kl, 0.001 + 0.1 * one.policy->kl);
  EXPECT_NEAR(ranks.policy->clip_fraction, one.policy->clip_fraction, 0.02);
  EXPECT_NEAR(ranks.policy->advantage_mean, one.policy->advantage_mean, 1e-5);
  EXPECT_NEAR(ranks.policy->importance_mean, one.policy->importance_mean, 0.01);
  EXPECT_NEAR(ranks.policy->train_rollout_logprob_abs_diff, one.policy->train_rollout_logprob_abs_diff, 0.01);
}

// Each axis's two ranks, twice. Returns the first rank's weights, by axis.
std::map<std::string, at::Tensor> expect_as_one_gpu(TrainConfig config, StepKind kind, const Course& alone) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [axis, dims] :
       {std::pair{"dp", parallel::ParallelDims{.dp = 2}}, std::pair{"tp", parallel::ParallelDims{.tp = 2}},
        std::pair{"pp", parallel::ParallelDims{.pp = 2}}, std::pair{"cp", parallel::ParallelDims{.cp = 2}},
        std::pair{"ring", parallel::ParallelDims{.cp = 2, .cp_form = parallel::CpForm::kRing}}}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, axis);
    config.parallel = dims;
    config.parallel.timeout_s = 60;  // or a hang is told after this program's own end
    std::vector<std::vector<Course>> runs;
    for (int run = 0; run < 2; ++run) runs.push_back(courses_of(config, kind));
    for (size_t step = 0; step < alone.steps.size(); ++step) {
      const testing::ScopedTrace at(__FILE__, __LINE__, fmt::format("step {}", step));
      expect_near(alone.steps[step], runs[0][0].steps[step]);
    }
    if (dims.pp == 1) {
      EXPECT_TRUE(at::equal(runs[0][0].replicas, runs[0][1].replicas)) << "the ranks' weights differ";
    }
    if (dims.tp * dims.pp == 1) {
      EXPECT_TRUE(at::equal(runs[0][0].all, runs[0][1].all)) << "the ranks' weights differ";
    }
    EXPECT_TRUE(at::equal(runs[0][0].all, runs[1][0].all)) << "two runs differ";
    weights[axis] = runs[0][0].all;
    fmt::print("{} {}: loss of the last step {:.5f} on one GPU, {:.5f} on two; norm {:.5f}, {:.5f}\n", axis,
               name_of(config.optimizer_state), alone.losses.back(), runs[0][0].losses.back(), alone.norms.back(),
               runs[0][0].norms.back());
  }
  return weights;
}

TEST_F(RanksOnGpus, TrainAsOneGpuWithinBfloat16AndTheSameTwice) {
  std::map<std::string, at::Tensor> of_fp32;  // by axis
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = course_config();
    config.optimizer_state = states;
    const Course alone = course_of(config, StepKind::kSft, nullptr);
    EXPECT_LT(alone.losses.back(), 0.98 * alone.losses.front());
    const auto weights = expect_as_one_gpu(config, StepKind::kSft, alone);
    if (states == OptimizerState::kFp32) of_fp32 = weights;
    if (states != OptimizerState::kCpu) continue;
    for (const auto& [axis, tensor] : weights)
      EXPECT_TRUE(at::equal(tensor, of_fp32.at(axis))) << axis << ": where the states are changes a bit";
  }
}

// With a loss of each token, and with one of a sequence's tokens together.
TEST_F(RanksOnGpus, LearnFromRewardsAsOneGpuWithinBfloat16AndTheSameTwice) {
  for (const Objective objective : {Objective::kClip, Objective::kGspo}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name_of(objective).data());
    const TrainConfig config = rl_config(objective);
    const Course alone = course_of(config, StepKind::kRl, nullptr);
    EXPECT_GT(alone.steps.back().policy.value().kl, 1e-4) << "the policy has not moved";
    expect_as_one_gpu(config, StepKind::kRl, alone);
  }
}

// Two parts of a sum have no order, and each way rounds it once.
TEST_F(RanksOnGpus, GradientsAndWeightsByTheCopyEnginesChangeNoBit) {
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name_of(states).data());
    std::vector<Course> ways;
    for (const bool copies : {true, false}) {
      TrainConfig config = course_config();
      config.optimizer_state = states;
      config.parallel = {.dp = 2, .peer_copies = copies};
      ways.push_back(courses_of(config, StepKind::kSft)[0]);
    }
    EXPECT_EQ(ways[0].losses, ways[1].losses);
    EXPECT_EQ(ways[0].norms, ways[1].norms);
    EXPECT_TRUE(at::equal(ways[0].all, ways[1].all));  // those that the other rank has updated among them
  }
}

// A stage's kernels are those of one GPU, on the same rows. What is clipped is not: the norm is summed by stages.
TEST_F(RanksOnGpus, StagesWithoutClippingChangeNoBit) {
  for (const int64_t recompute : {0, 2}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, recompute);
    TrainConfig config = course_config();
    config.clip_grad = 0;
    config.recompute_layers = recompute;
    const Course alone = course_of(config, StepKind::kSft, nullptr);
    config.parallel = {.pp = 2};
    const std::vector<Course> ranks = courses_of(config, StepKind::kSft);
    EXPECT_EQ(ranks[0].losses, alone.losses);
    EXPECT_TRUE(at::equal(ranks[0].whole, alone.all));
  }
}

}  // namespace

int train_as_second_rank(const std::string& rendezvous, const std::string& config, const std::string& kind,
                         const std::string& folder) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  const auto train = options_from_json<TrainConfig>(parse_json(config, "the first rank's config"), "config");
  parallel::World world(train.parallel, parallel::as_second_rank(rendezvous), kernels::open_device("cuda"),
                        [](const std::string&) { std::_Exit(3); });
  const Course course = course_of(train, from_name<StepKind>(kind, "kind"), &world);
  model::save_safetensors({{"all", course.all}, {"replicas", course.replicas}}, fs::path(folder) / kSecond, {});
  return testing::Test::HasFailure() ? 4 : 0;
}

}  // namespace tritonforge::train
