#include "orchestrate/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>

#include "base/hub.h"
#include "orchestrate/preflight.h"
#include "orchestrate/run_context.h"
#include "orchestrate/stages.h"
#include "rollout/reward.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2) << error.what();
    return error.what();
  }
  return "no error";
}

class RecipeTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    write_file_atomic(folder_.path() / name, text);
    return folder_.path() / name;
  }
  TemporaryFolder folder_{"recipe"};
};

// Where the program's own recipes are, wherever the tests are started from.
class RootIs {
 public:
  explicit RootIs(const fs::path& root) {
    if (const char* before = std::getenv("TRITONFORGE_ROOT")) before_ = before;
    ::setenv("TRITONFORGE_ROOT", root.c_str(), 1);
  }
  ~RootIs() { before_ ? ::setenv("TRITONFORGE_ROOT", before_->c_str(), 1) : ::unsetenv("TRITONFORGE_ROOT"); }
  RootIs(const RootIs&) = delete;
  RootIs& operator=(const RootIs&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST_F(RecipeTest, EveryShippedRecipeLoadsAndSurvivesADump) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TF_SOURCE_DIR) / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    const RecipeConfig config = load_recipe(entry.path(), {});
    const auto copy = load_config<RecipeConfig>(parse_yaml(dump_config(config), "dump"), "dump");
    EXPECT_EQ(dump_config(copy), dump_config(config)) << entry.path();
    EXPECT_THAT(doubts(config), ::testing::IsEmpty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST_F(RecipeTest, AShippedRecipeNamesAModelOfTheRepositoryOfARunOrOfTheHub) {
  const fs::path root = TF_SOURCE_DIR;
  for (const auto& entry : fs::directory_iterator(root / "recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    const fs::path model = load_recipe(entry.path(), {}).model.path;
    const bool of_the_hub = parse_hub_name(model) &&
                            !fs::exists(root / *model.begin());  // what pull_hint takes for one
    EXPECT_TRUE(fs::exists(root / model) || *model.begin() == "runs" || of_the_hub) << entry.path() << ": " << model;
  }
}

TEST_F(RecipeTest, ABufferWithoutTrajectoriesOfItsOwnIsWhatGeneratorsSays) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  EXPECT_EQ(load_recipe(path, {"rollout.concurrency=1"}).rollout.buffer.concurrency, 1u);
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rollout.concurrency=0"}); }),
              HasSubstr("'rollout.concurrency' must be between 1 and 4096, not 0"));
  const std::string reference = recipe_reference();
  const size_t row = reference.find("`rollout.concurrency`");
  EXPECT_THAT(reference.substr(row, reference.find('\n', row) - row),
              AllOf(HasSubstr("between 1 and 4096"), ::testing::Not(HasSubstr("0: "))));
}

TEST_F(RecipeTest, OnlyWhatDecidesTheResultKeepsAResumeFromGoingOn) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  const RecipeConfig before = load_recipe(path, {});
  std::vector<std::string> begun = {"rl"};
  const auto changes = [&](const std::vector<std::string>& set) {
    return deciding_changes(before, load_recipe(path, set), begun);
  };
  EXPECT_THAT(changes({}), ::testing::IsEmpty());
  EXPECT_THAT(changes({"dashboard_port=0", "engine.max_running=8", "rl.train.checkpoint_interval=3",
                       "supervisor.hung_after_s=5", "rollout.concurrency=2", "evaluator.workers=1",
                       "router.policy=least_tokens"}),
              ::testing::IsEmpty());
  EXPECT_THAT(changes({"engine.kv_cache_dtype=fp8_e4m3", "engine.weight_dtype=fp8_e4m3"}),
              ::testing::UnorderedElementsAre(HasSubstr("engine.kv_cache_dtype"), HasSubstr("engine.weight_dtype")));
  const std::string device = before.evaluator.on_gpu() ? "cpu" : "cuda:0";
  EXPECT_THAT(changes({"evaluator.device=" + device}), ::testing::ElementsAre(HasSubstr("evaluator.device")));
  EXPECT_THAT(changes({"seed=2"}), ::testing::ElementsAre("seed: 1, now 2"));
  EXPECT_THAT(changes({"rl.train.lr=1e-3", "rl.prompts_per_step=3"}),
              ::testing::UnorderedElementsAre(HasSubstr("rl.train.lr"), "rl.prompts_per_step: 8, now 3"));
  EXPECT_THAT(changes({"model.path=n"}), ::testing::ElementsAre("model.path: m, now n"));
  EXPECT_THAT(changes({"bench.samples=9", "sft.steps=3"}), ::testing::IsEmpty());  // these stages are still to come
  begun = {"sft"};
  EXPECT_THAT(changes({"rl.problems=q", "rollout.gamma=0.9"}), ::testing::IsEmpty());
  const std::string other = fmt::format("rollout.enable_thinking={}", !before.rollout.enable_thinking);
  EXPECT_THAT(changes({other}), ::testing::ElementsAre(HasSubstr("rollout.enable_thinking"))) << "in SFT's text, too";
  begun = {"bench"};
  EXPECT_THAT(changes({"rl.problems=q", "rollout.gamma=0.9"}), ::testing::ElementsAre(HasSubstr("rollout.gamma")));

  const auto measured = write("b.yaml",
                              "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p, models: [base]}\n");
  const auto at = [&](const std::string& urls) { return load_recipe(measured, {"engine.external=" + urls}); };
  EXPECT_THAT(deciding_changes(at("['http://a:1']"), at("['http://b:2']"), begun), ::testing::IsEmpty());
  EXPECT_THAT(deciding_changes(at("[]"), at("['http://b:2']"), begun),
              ::testing::ElementsAre("engine.external: none, now given"));
}

TEST_F(RecipeTest, AStageMayHaveMoreStepsWhereThoseThatItHasStayTheSame) {
  const auto path = write("a.yaml",
                          "name: a\nmodel: {path: m}\nstages: [sft, rl]\nrl: {problems: p}\n"
                          "data: {pairs: p}\n");
  const auto changes = [&](std::vector<std::string> set, const std::string& steps,
                           const std::vector<std::string>& begun) {
    const RecipeConfig before = load_recipe(path, set);
    set.push_back(steps);
    return deciding_changes(before, load_recipe(path, set), begun);
  };
  EXPECT_THAT(changes({"rl.train.schedule=constant"}, "rl.steps=30", {"sft", "rl"}), ::testing::IsEmpty());
  EXPECT_THAT(changes({}, "rl.steps=30", {"sft", "rl"}),
              ::testing::ElementsAre("rl.steps: 20, now 30: a cosine falls over all of them"));
  EXPECT_THAT(changes({"rl.train.schedule=constant", "rl.update_interval=3", "rl.train.checkpoint_interval=3"},
                      "rl.steps=30", {"sft", "rl"}),
              ::testing::ElementsAre("rl.steps: 20, now 30: the last one was no multiple of rl.update_interval"));
  EXPECT_THAT(changes({"sft.train.schedule=constant"}, "sft.steps=300", {"sft"}), ::testing::IsEmpty());
  EXPECT_THAT(changes({"sft.train.schedule=constant"}, "sft.steps=300", {"sft", "rl"}),
              ::testing::ElementsAre("sft.steps: 100, now 300: RL began after the last one"));
}

TEST_F(RecipeTest, PairsAreJudgedAsTheEvaluatorsSectionSays) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  EXPECT_TRUE(load_recipe(path, {}).pair_request().fresh_seeds);
  const EvaluationOptions options = load_recipe(path, {"evaluator.fresh_seeds=false"}).pair_request();
  EXPECT_FALSE(options.fresh_seeds);
  EXPECT_FALSE(options.measure_performance);
}

TEST_F(RecipeTest, ADistributionThatIsCutAndTrainedOnIsDoubted) {
  const auto path = write("a.yaml",
                          "name: a\nmodel: {path: m}\nstages: [rl, bench]\nrl: {problems: p}\n"
                          "bench: {problems: p}\n");
  const auto of = [&](const std::vector<std::string>& set) { return doubts(load_recipe(path, set)); };
  EXPECT_THAT(of({"rl.sampling.temperature=0.8"}), ::testing::IsEmpty());
  EXPECT_THAT(of({"rl.sampling.top_p=0.95"}), ::testing::ElementsAre(HasSubstr("rl.sampling.top_p 0.95: ")));
  EXPECT_THAT(of({"rl.sampling.top_k=50", "rl.sampling.min_p=0.1"}),
              ::testing::ElementsAre(HasSubstr("rl.sampling.top_k 50: "), HasSubstr("rl.sampling.min_p 0.1: ")));
  EXPECT_THAT(of({"bench.sampling.top_p=0.95"}), ::testing::IsEmpty()) << "nothing is trained on it";
}

TEST_F(RecipeTest, MeasuringWhatIsTrainedOnIsDoubted) {
  const auto problems = fs::path(TF_SOURCE_DIR) / "problems/quickstart";
  const auto path = write("a.yaml", fmt::format("name: a\nmodel: {{path: m}}\nstages: [rl, bench]\n"
                                                "rl: {{problems: {0}/rl}}\nbench: {{problems: {0}/holdout}}\n",
                                                problems.string()));
  EXPECT_THAT(doubts_of_problems(load_recipe(path, {})), ::testing::IsEmpty());
  EXPECT_THAT(doubts_of_problems(load_recipe(path, {"bench.problems=" + (problems / "rl").string(), "bench.limit=7"})),
              ::testing::ElementsAre(HasSubstr("bench.problems: 7 of 7 problems are in rl.problems, too")));
}

TEST_F(RecipeTest, TrainingOnWhatAnEngineInFp8SaidIsDoubted) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  EXPECT_THAT(doubts(load_recipe(path, {"engine.kv_cache_dtype=fp8_e4m3"})),
              ::testing::ElementsAre(HasSubstr("log-probs that differ from the trainer's")));
  const auto bench = write("b.yaml", "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p}\n");
  EXPECT_THAT(doubts(load_recipe(bench, {"engine.kv_cache_dtype=fp8_e4m3"})), ::testing::IsEmpty());
  EXPECT_THAT(doubts(load_recipe(path, {"engine.weight_dtype=fp8_e4m3"})),
              ::testing::ElementsAre(HasSubstr("engine.weight_dtype fp8_e4m3: ")));
  EXPECT_THAT(doubts(load_recipe(bench, {"engine.weight_dtype=fp8_e4m3"})), ::testing::IsEmpty());
}

TEST_F(RecipeTest, ReplayOfWhatValidationsHaveTheBufferForgetIsDoubted) {
  const auto path = write("a.yaml",
                          "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p, replay: {groups: 1, steps: 40}, "
                          "train: {loss: {tis_cap: 2}}}\n");
  EXPECT_THAT(doubts(load_recipe(path, {})), ::testing::IsEmpty());
  EXPECT_THAT(doubts(load_recipe(path, {"rl.validation.every=2", "rl.validation.problems=q"})), ::testing::IsEmpty());
  EXPECT_THAT(doubts(load_recipe(path, {"rl.validation.every=1", "rl.validation.problems=q"})),
              ::testing::ElementsAre(HasSubstr("81 leases are committed meanwhile")));
}

TEST_F(RecipeTest, GroupsThatARunThatGoesOnAsksForAgainMustNotBeForgotten) {
  const auto path = write("a.yaml",
                          "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p, over_sampling: 2, refills: 0, "
                          "max_staleness: 3}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rollout.keep_steps=5"}); }),
              AllOf(HasSubstr("rollout.keep_steps"), HasSubstr("at least 6")));
  EXPECT_EQ(load_recipe(path, {"rollout.keep_steps=6"}).rollout.buffer.retention.steps, 6);
}

TEST_F(RecipeTest, ATrajectoryThatNoStepCanHoldIsRefused) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rollout.max_context=9000"}); }),
              AllOf(HasSubstr("rl.train.max_tokens_per_micro_batch"), HasSubstr("9000")));
  EXPECT_EQ(load_recipe(path, {"rollout.max_context=8192"}).rollout.max_context, 8192);
}

TEST_F(RecipeTest, AChatServerCanBeMeasuredAndNotTrained) {
  const std::string model = "name: a\nmodel: {chat_url: http://h/v1, chat_name: m}\n";
  const auto bench = write("a.yaml", model + "stages: [bench]\nbench: {problems: p, models: [base]}\n");
  const RolloutOptions request = load_recipe(bench, {}).rollout_request({}, 1);
  EXPECT_EQ(request.chat_model, "m");
  EXPECT_EQ(request.router, "");  // the buffer's, so that what is under way goes on where the server stands then
  const auto changes = [&](const std::string& set) {
    return deciding_changes(load_recipe(bench, {}), load_recipe(bench, {set}), {"bench"});
  };
  EXPECT_THAT(changes("model.chat_url=http://other:1/v1"), ::testing::IsEmpty());
  EXPECT_THAT(changes("model.chat_name=n"), ::testing::ElementsAre("model.chat_name: m, now n"));
  EXPECT_THAT(error_of([&] { load_recipe(bench, {"stages=[rl, bench]", "rl.problems=p"}); }),
              HasSubstr("it is not trained"));
  EXPECT_THAT(error_of([&] { load_recipe(bench, {"model.path=x"}); }), HasSubstr("two models"));
  EXPECT_THAT(error_of([&] { load_recipe(bench, {"model.chat_name=''"}); }), HasSubstr("'model.chat_name' is missing"));
  EXPECT_THAT(error_of([&] { load_recipe(bench, {"bench.models=[base, rl]"}); }), HasSubstr("[base]"));
  const auto none = write("b.yaml", "name: a\nstages: [bench]\nbench: {problems: p}\n");
  EXPECT_THAT(error_of([&] { load_recipe(none, {}); }), HasSubstr("'model.path' is missing"));
}

TEST_F(RecipeTest, StatesThatTheDeviceHasNotAreRefused) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  const std::string states = "rl.train.optimizer_state=bf16_sr", on_host = "rl.train.optimizer_state=cpu";
  EXPECT_THAT(error_of([&] { load_recipe(path, {states, "model.device=cpu"}); }),
              AllOf(HasSubstr("'rl.train.optimizer_state'"), HasSubstr("the device is cpu")));
  for (const std::string& of_gpu : {states, on_host})
    EXPECT_EQ(error_of([&] { load_recipe(path, {of_gpu, "model.device=cuda:0", "model.dtype=bfloat16"}); }),
              "no error");
  EXPECT_EQ(error_of([&] { load_recipe(path, {on_host, "model.device=cpu"}); }), "no error");
}

TEST_F(RecipeTest, ARecipeExtendsOneBesideItOrOneOfTheProgramsOwn) {
  const RootIs root(TF_SOURCE_DIR);
  write("b.yaml", "name: b\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p}\n");
  const auto extending = [&](const std::string& base) { return write("a.yaml", "extends: " + base + "\nseed: 7\n"); };
  EXPECT_EQ(load_recipe(extending("b.yaml"), {}).name, "b");
  for (const char* own : {"quickstart", "quickstart.yaml", "recipes/quickstart.yaml"})
    EXPECT_EQ(load_recipe(extending(own), {}).name, "quickstart") << own;
  EXPECT_THAT(error_of([&] { load_recipe(extending("bb.yaml"), {}); }), HasSubstr("did you mean 'b.yaml'?"));
  EXPECT_THAT(error_of([&] { load_recipe(extending("[b, c]"), {}); }),
              HasSubstr("a.yaml: 'extends' must be the name of one recipe"));
}

TEST_F(RecipeTest, ARunsFolderIsNoRecipeAndSaysHowTheRunGoesOn) {
  const fs::path run = write("recipe.yaml", "name: a\n").parent_path();
  EXPECT_THAT(error_of([&] { load_recipe(run, {}); }),
              HasSubstr(fmt::format("`tritonforge run {0}/recipe.yaml --output {0} --resume`", run.string())));
}

TEST_F(RecipeTest, UnknownKeyNamesTheNearest) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p, sampels: 3}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {}); }),
              AllOf(HasSubstr("a.yaml"), HasSubstr("'bench.sampels'"), HasSubstr("'samples'")));
  const auto good = write("b.yaml", "name: a\nmodel: {path: m}\nstages: [bench]\nbench: {problems: p}\n");
  EXPECT_THAT(error_of([&] { load_recipe(good.parent_path() / "bb.yaml", {}); }),
              AllOf(HasSubstr("there is no recipe"), HasSubstr("did you mean 'b.yaml'?")));
  EXPECT_THAT(error_of([&] { load_recipe("/nowhere/a.yaml", {}); }), HasSubstr("/nowhere/a.yaml"));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.sample=3"}); }),
              AllOf(HasSubstr("'bench.sample'"), HasSubstr("'samples'")));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"evaluator.mode=intrepret"}); }), HasSubstr("'interpret'"));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.samples=many"}); }), HasSubstr("an integer"));
  EXPECT_THAT(error_of([&] { load_recipe(good, {"bench.samples"}); }), HasSubstr("path=value"));
}

TEST_F(RecipeTest, ExtendsMergesKeyByKeyAndOverridesWin) {
  write("base.yaml",
        "name: base\nmodel: {path: m, dtype: bfloat16}\nstages: [bench]\nbench: {problems: p, samples: 2}\n");
  const auto path = write("child.yaml", "extends: base.yaml\nname: child\nbench: {samples: 5}\n");
  const RecipeConfig config = load_recipe(path, {"seed=9"});
  EXPECT_EQ(config.name, "child");
  EXPECT_EQ(config.model.dtype, "bfloat16");
  EXPECT_EQ(config.bench.problems, "p");
  EXPECT_EQ(config.bench.samples, 5);
  EXPECT_EQ(config.seed, 9);
  const auto circle = write("circle.yaml", "extends: circle.yaml\n");
  EXPECT_THAT(error_of([&] { load_recipe(circle, {}); }), HasSubstr("circle"));
}

TEST_F(RecipeTest, AnAlgorithmByNameSetsWhatTheRecipeDoesNot) {
  const auto path = write("a.yaml",
                          "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p, train: {lr: 3.0e-6}}\n");
  const auto loss_of = [&](const std::string& name) {
    return load_recipe(path, {"rl.algorithm=" + name}).rl.train.loss;
  };
  for (const std::string& name : algorithm_names()) EXPECT_EQ(load_recipe(path, {"rl.algorithm=" + name}).name, "a");
  EXPECT_EQ(loss_of("grpo").kl_coef, 0.04);
  EXPECT_EQ(loss_of("dr_grpo").aggregation, train::Aggregation::kConstant);
  EXPECT_EQ(loss_of("gspo").objective, train::Objective::kGspo);
  EXPECT_EQ(loss_of("cispo").objective, train::Objective::kCispo);
  EXPECT_TRUE(loss_of("reinforce++").normalize_advantages);
  EXPECT_EQ(load_recipe(path, {"rl.algorithm=rloo"}).rollout.advantage, Advantage::kRloo);
  const RecipeConfig dapo = load_recipe(path, {"rl.algorithm=dapo", "rl.train.loss.clip_high=0.3"});
  EXPECT_EQ(dapo.rl.train.loss.clip_high, 0.3);  // what is said comes before what the name stands for
  EXPECT_EQ(dapo.rl.train.lr, 3e-6);
  EXPECT_EQ(dapo.rollout.overlong, Overlong::kPenalty);
  EXPECT_GT(dapo.rl.refills, 0);
  // A dump says all of it, and is read as it is.
  const auto dump = write("dump.yaml", dump_config(dapo));
  EXPECT_EQ(dump_config(load_recipe(dump, {})), dump_config(dapo));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rl.algorithm=dapoo"}); }), HasSubstr("'dapo'"));
}

TEST_F(RecipeTest, NothingGoesOnFromBetweenTwoUpdatesOfTheEngines) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p, update_interval: 4}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rl.train.checkpoint_interval=6"}); }),
              AllOf(HasSubstr("'rl.train.checkpoint_interval' is 6"), HasSubstr("the next multiple is 8")));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rl.validation={every: 2, problems: q}"}); }),
              AllOf(HasSubstr("'rl.validation.every' is 2"), HasSubstr("the next multiple is 4")));
  const RecipeConfig config = load_recipe(path, {"rl.train.checkpoint_interval=8", "sft.train.checkpoint_interval=3"});
  EXPECT_EQ(trainer_config(config, config.rl.train, "rl", "m", "run", 9).stop_interval, 4);
  EXPECT_EQ(trainer_config(config, config.sft.train, "sft", "m", "run", 9).stop_interval, 1);
}

TEST_F(RecipeTest, AVersionIsOneSetOfWeights) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p, steps: 7}\n");
  const RecipeConfig config = load_recipe(path, {});
  EXPECT_LT(weights_version(config, "base"), weights_version(config, "sft"));
  EXPECT_EQ(weights_version(config, "sft"), 1);  // which RL begins with
  const int64_t last_of_rl = 1 + config.rl.steps;
  EXPECT_GT(weights_version(config, "rl"), last_of_rl) << "models/rl may be of an earlier step";
}

TEST_F(RecipeTest, ValidationNeedsProblemsOfItsOwn) {
  const auto path = write("a.yaml", "name: a\nmodel: {path: m}\nstages: [rl]\nrl: {problems: p}\n");
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rl.validation.every=5"}); }), HasSubstr("'rl.validation.problems'"));
  EXPECT_EQ(load_recipe(path, {"rl.validation={every: 5, problems: q}"}).rl.validation.problems, "q");
}

// The whole recipe of a run that a version before the roles' own options dumped.
constexpr const char* kOldDump = R"(name: old
seed: 3
stages:
  - sft
  - rl
model: {path: m, dtype: bfloat16, device: "cuda:0"}
data: {pairs: p.jsonl, text: "", verify: 100}
sft:
  steps: 2
  tokens_per_step: 2048
  max_sequence: 1024
  train: {model: "", init_random: false, reference_model: "", dtype: bfloat16, device: cpu, threads: 0, seed: 0,
          lr: 0.0015, min_lr: 0.0001, schedule: cosine, warmup_steps: 20, total_steps: 1000, checkpoint: "", run_id: "",
          loss: {kl_type: k3, ratio_base: trainer, aggregation: token-mean}, parallel: {tp: 1}}
rollout: {prompt: minimal, max_turns: 3, max_context: 2048, gamma: 0.4, reward: seed, credit: per_turn,
          advantage: grpo, stop_speedup: 1.5, concurrency: 64}
rl: {problems: p, sampling: {temperature: 1, top_p: 1, max_new_tokens: 512}}
engine: {external: [], count: 1, max_running: 64, kv_cache_tokens: 65536, max_context: 2048, threads: 0}
evaluator: {mode: interpret, device: cpu, sandbox: auto, workers: 2, num_correct_trials: 2, num_perf_trials: 100,
            fresh_seeds: false, max_elements: 0, timeout_s: 60, candidate_timeout_s: 0}
)";

TEST_F(RecipeTest, ADumpOfAnOlderVersionLoads) {
  const RecipeConfig config = load_recipe(write("old.yaml", kOldDump), {});
  EXPECT_EQ(config.rollout.prompt, PromptStyle::kMinimal);
  EXPECT_EQ(config.rollout.credit, Credit::kPerTurn);
  EXPECT_EQ(config.rollout.buffer.concurrency, 64u);
  EXPECT_EQ(config.evaluator.request.num_correct_trials, 2);
  EXPECT_FALSE(config.evaluator.request.fresh_seeds);
  EXPECT_EQ(config.engine.kv_cache_tokens, 65536);
}

TEST_F(RecipeTest, WhatTheRunDecidesHasNoKey) {
  const auto path = write("old.yaml", kOldDump);
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rl.train.device=cuda:0"}); }),
              HasSubstr("'rl.train.device' is decided by the run"));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"engine.model=x"}); }), HasSubstr("'engine.model' is decided"));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"router.workers=[http://x]"}); }), HasSubstr("'router.workers'"));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rollout.router=http://x"}); }), HasSubstr("'rollout.router'"));
  EXPECT_THAT(error_of([&] { load_recipe(path, {"rollout.sampling={top_k: 1}"}); }), HasSubstr("'rollout.sampling'"));
}

TEST_F(RecipeTest, AnOptionOfARoleIsAKeyOfItsSection) {
  const auto path = write("old.yaml", kOldDump);
  const RecipeConfig config = load_recipe(
      path, {"engine.max_step_tokens=256", "rollout.evaluations=3", "evaluator.max_queue=7", "rl.sampling.top_k=5",
             "router.policy=cache_aware", "router.evaluation_rate=2"});
  EXPECT_EQ(config.engine.max_step_tokens, 256);
  EXPECT_EQ(config.rollout.buffer.evaluations, 3u);
  EXPECT_EQ(config.evaluator.max_queue, 7);
  EXPECT_EQ(config.rollout_request(config.rl.sampling, 2).sampling.top_k, 5);
  EXPECT_THAT(to_flags(config.router), ::testing::ElementsAre("--policy", "cache_aware", "--evaluation-rate", "2"));
}

TEST_F(RecipeTest, AValueThatIsNotAllowedIsRefusedByItsPath) {
  const auto path = write("old.yaml", kOldDump);
  const auto error = [&](const std::string& override) { return error_of([&] { load_recipe(path, {override}); }); };
  EXPECT_THAT(error("rollout.max_turns=17"), HasSubstr("'rollout.max_turns' must be between 1 and 16, not 17"));
  EXPECT_THAT(error("rollout.reward=sed"), AllOf(HasSubstr("'rollout.reward'"), HasSubstr("did you mean 'seed'")));
  EXPECT_THAT(error("rollout.reward=speedup *"), HasSubstr("'rollout.reward'"));
  EXPECT_THAT(error("rollout.credit=perturn"), HasSubstr("did you mean 'per_turn'"));
  EXPECT_THAT(error("router.policy=cache_awre"),
              HasSubstr("'router.policy': unknown value 'cache_awre' (did you mean"));
  EXPECT_THAT(error("router.max_running=-1"), HasSubstr("'router.max_running' must be at least 0, not -1"));
  EXPECT_THAT(error("rl.samples_per_prompt=1"), HasSubstr("must be at least 2, not 1"));
  EXPECT_THAT(error("stages=[sft, bnech]"), HasSubstr("'stages': unknown value 'bnech' (did you mean 'bench'?)"));
  EXPECT_THAT(error("model.path="), HasSubstr("'model.path'"));
  EXPECT_THAT(error("rl.train.loss.kl_type=k4"), HasSubstr("'rl.train.loss.kl_type'"));
}

TEST_F(RecipeTest, TheReferenceListsEveryKeyAndEveryReward) {
  const std::string page = recipe_reference();
  for (const char* row : {"| `rl.samples_per_prompt` | `8` | integer: at least 2 |", "| `engine.max_running` | `64` |",
                          "| `rollout.credit` | `trajectory` | text: trajectory \\| per_turn \\| best_turn |",
                          "| `name` | `(required)` | text |", "## rl.train.loss: the reinforcement learning loss"})
    EXPECT_THAT(page, HasSubstr(row));
  for (const char* decided : {"rl.train.device", "engine.model", "rollout.router", "rollout.db", "evaluator.python",
                              "router.workers", "router.port"})
    EXPECT_THAT(page, ::testing::Not(HasSubstr(decided)));
  for (const std::string& reward : rollout::reward_names()) EXPECT_THAT(page, HasSubstr(reward));
}

TEST_F(RecipeTest, ARequestCarriesTheSectionsOfTheRecipe) {
  RecipeConfig config = load_recipe(write("old.yaml", kOldDump), {});
  const RolloutOptions request = config.rollout_request(config.rl.sampling, 2);
  EXPECT_EQ(request.max_turns, 2);
  EXPECT_EQ(request.sampling.max_new_tokens, 512);
  EXPECT_EQ(request.evaluate.mode, EvaluationMode::kInterpret);
  EXPECT_FALSE(request.evaluate.measure_performance);
  EXPECT_EQ(request.evaluate.num_correct_trials, 2);
  config.evaluator.mode = EvaluationMode::kLive;
  EXPECT_TRUE(config.rollout_request(config.rl.sampling, 2).evaluate.measure_performance);
}

TEST(EvaluatorOptions, ACandidateLeavesHalfOfASharedGpuToTheOthers) {
  RecipeConfig config;
  EXPECT_EQ(evaluator_options(config).device_memory, 0);  // all of its own
  config.share_device = true;
  EXPECT_EQ(evaluator_options(config).device_memory, 0.5);
  config.evaluator.device_memory = 0.8;
  EXPECT_EQ(evaluator_options(config).device_memory, 0.8);
}

}  // namespace
}  // namespace tritonforge::orchestrate
