#include "orchestrate/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "orchestrate/plan.h"
#include "orchestrate/preflight.h"
#include "orchestrate/recipe.h"
#include "orchestrate/run_context.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layout laid_out(const std::string& yaml) {
  return lay_out(load_config<PlacementSection>(parse_yaml(yaml, "placement"), "placement"));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2) << error.what();
    return error.what();
  }
  return "no error";
}

std::string refusal(const std::string& yaml) {
  return error_of([&] { laid_out(yaml); });
}

std::vector<std::string> texts(const std::vector<Place>& places) {
  std::vector<std::string> result;
  for (const Place& place : places) result.push_back(text_of(place));
  return result;
}

TEST(Placement, GroupsTakeTheFirstDevicesThatAreLeft) {
  const Layout layout = laid_out("{actor: {gpus: 4, tp: 2, cp: 2}, rollout: {gpus: 2}, eval: {gpus: 2}}");
  EXPECT_THAT(texts(layout.actor),
              ElementsAre("localhost: GPU 0", "localhost: GPU 1", "localhost: GPU 2", "localhost: GPU 3"));
  EXPECT_THAT(texts(layout.engines), ElementsAre("localhost: GPU 4", "localhost: GPU 5"));
  EXPECT_EQ(text_of(layout.eval), "localhost: GPU 6, 7");
  EXPECT_EQ(layout.actor_degrees.dp, 1);
  EXPECT_FALSE(layout.actor_shares || layout.rollout_shares || layout.eval_shares);
}

TEST(Placement, WhatTheGpusAreEnoughForIsTheDataParallelDegreeAndTheEngines) {
  const Layout layout = laid_out(
      "{actor: {gpus: 8, tp: 2}, rollout: {gpus: 8, tp: 4}, gpus: "
      "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}");
  EXPECT_EQ(layout.actor_degrees.dp, 4);
  EXPECT_THAT(texts(layout.engines), ElementsAre("localhost: GPU 8, 9, 10, 11", "localhost: GPU 12, 13, 14, 15"));
}

TEST(Placement, HostsAreFilledOneAfterAnother) {
  const Layout layout = laid_out(
      "{hosts: [a, b], gpus: [0, 1, 2, 3], actor: {gpus: 4, tp: 2}, rollout: {gpus: 2}, eval: {gpus: 1, hosts: [b]}}");
  EXPECT_THAT(texts(layout.actor), ElementsAre("a: GPU 0", "a: GPU 1", "a: GPU 2", "a: GPU 3"));
  EXPECT_THAT(texts(layout.engines), ElementsAre("b: GPU 0", "b: GPU 1"));
  EXPECT_EQ(text_of(layout.eval), "b: GPU 2");
}

TEST(Placement, IdsAreOfEachOfTheGroupsHosts) {
  const Layout layout = laid_out(
      "{hosts: [a, b], actor: {gpu_ids: [6, 7], tp: 2}, rollout: {gpu_ids: [1], hosts: [b]}}");
  EXPECT_THAT(texts(layout.actor), ElementsAre("a: GPU 6", "a: GPU 7", "b: GPU 6", "b: GPU 7"));
  EXPECT_EQ(layout.actor_degrees.dp, 2);
  EXPECT_THAT(texts(layout.engines), ElementsAre("b: GPU 1"));
}

TEST(Placement, AGroupMayShareAnothersDevices) {
  const Layout one = laid_out("{actor: {gpus: 1}, rollout: {gpus: 1}, eval: {with: rollout}}");
  EXPECT_EQ(text_of(one.eval), "localhost: GPU 1");
  EXPECT_TRUE(one.rollout_shares && one.eval_shares);
  EXPECT_FALSE(one.actor_shares);
  const Layout all = laid_out("{actor: {gpus: 4, tp: 2}, rollout: {with: actor, tp: 2}, eval: {with: actor}}");
  EXPECT_THAT(texts(all.engines), ElementsAre("localhost: GPU 0, 1", "localhost: GPU 2, 3"));
  EXPECT_EQ(text_of(all.eval), "localhost: GPU 0, 1, 2, 3");
  EXPECT_TRUE(all.actor_shares && all.rollout_shares && all.eval_shares);
}

TEST(Placement, CoresAreSharedOutEvenlyAndBound) {
  const Layout layout = laid_out("{cores: [2, 3, 4, 5, 6, 7], actor: {cores: 2}, rollout: {cores: 4, engines: 2}}");
  EXPECT_THAT(texts(layout.actor), ElementsAre("localhost: cores 2, 3"));
  EXPECT_THAT(texts(layout.engines), ElementsAre("localhost: cores 4, 5", "localhost: cores 6, 7"));
  EXPECT_THAT(bound_to_cores(layout.engines[0], {"x", "y"}), ElementsAre("taskset", "-c", "4,5", "x", "y"));
  EXPECT_THAT(bound_to_cores(Place(), {"x"}), ElementsAre("x"));
}

TEST(Placement, NoDeviceIsSeenThatWasNotGiven) {
  const Layout layout = laid_out("{actor: {gpus: 1}, rollout: {gpus: 1, gpu_ids: []}, eval: {}}");
  EXPECT_EQ(environment_of(layout.engines[0]).at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(environment_of(layout.engines[0], "6,7").at("CUDA_VISIBLE_DEVICES"), "7");
  EXPECT_EQ(environment_of(layout.eval).at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(environment_of({.host = "a", .cores = {1, 5}}).at("OMP_NUM_THREADS"), "2");
}

TEST(Placement, WhatCannotBeIsRefusedWithTheNearestThatCan) {
  EXPECT_THAT(refusal("{actor: {gpus: 8, tp: 3}}"), AllOf(HasSubstr("tp 3"), HasSubstr("dp 2 on 6 GPUs fits")));
  EXPECT_THAT(refusal("{actor: {gpus: 2, tp: 4}}"), HasSubstr("4 GPUs are the fewest"));
  EXPECT_THAT(refusal("{actor: {gpus: 4, tp: 2, ep: 3}}"), HasSubstr("'placement.actor.ep' 3 does not divide"));
  EXPECT_THAT(refusal("{gpus: [0, 1], actor: {gpus: 1}, rollout: {gpus: 2}}"),
              AllOf(HasSubstr("'placement.rollout.gpus' is 2, and 1 are left on localhost (actor has 1)"),
                    HasSubstr("1 would fit")));
  EXPECT_THAT(refusal("{actor: {gpu_ids: [1]}, rollout: {gpu_ids: [1]}}"),
              AllOf(HasSubstr("1 of localhost is the actor group's"), HasSubstr("'with' shares"), HasSubstr("0, 2")));
  EXPECT_THAT(refusal("{gpus: [0], actor: {gpu_ids: [3]}}"), HasSubstr("3 is not among 'placement.gpus' (0)"));
  EXPECT_THAT(refusal("{hosts: [alpha], actor: {hosts: [alhpa]}}"), HasSubstr("did you mean 'alpha'?"));
  EXPECT_THAT(refusal("{hosts: [a, a]}"), HasSubstr("twice"));
  EXPECT_THAT(refusal("{hosts: [a, b], actor: {gpus: 4}}"), HasSubstr("needs 'placement.gpus'"));
  EXPECT_THAT(refusal("{rollout: {gpus: 3, tp: 2}}"), HasSubstr("1 engines fit"));
  EXPECT_THAT(refusal("{rollout: {gpus: 1, with: actor}}"), HasSubstr("leave one out"));
  EXPECT_THAT(refusal("{actor: {gpus: 1, gpu_ids: [0]}}"), HasSubstr("leave one out"));
  EXPECT_THAT(refusal("{hosts: [a, b], gpus: [0, 1], rollout: {gpus: 3, tp: 3, engines: 1}}"), HasSubstr("two hosts"));
  EXPECT_THAT(refusal("{rollout: {cores: 3, engines: 2}}"), HasSubstr("2 is"));
}

TEST(Placement, NoDeviceIsGivenTwice) {
  EXPECT_THAT(refusal("{actor: {gpu_ids: [0, 0]}}"), HasSubstr("'placement.actor.gpu_ids' names 0 twice"));
  EXPECT_THAT(refusal("{gpus: [1, 1], actor: {gpus: 2}}"), HasSubstr("'placement.gpus' names 1 twice"));
  EXPECT_THAT(refusal("{actor: {core_ids: [2, 2], dp: 2}}"), HasSubstr("'placement.actor.core_ids' names 2 twice"));
  EXPECT_THAT(refusal("{hosts: [a, b], actor: {gpu_ids: [0], hosts: [a, a]}}"),
              HasSubstr("'placement.actor.hosts' names a twice"));
}

TEST(Placement, NumbersThatNoClusterHasAreRefused) {
  EXPECT_THAT(refusal("{actor: {tp: 4294967296, cp: 4294967296}}"), HasSubstr("are more than 65536 processes"));
  EXPECT_THAT(refusal("{actor: {dp: 9223372036854775807}}"), HasSubstr("are more than 65536 processes"));
  EXPECT_THAT(refusal("{rollout: {tp: 4294967296, engines: 4294967296}}"), HasSubstr("are more than 65536 processes"));
  EXPECT_THAT(refusal("{eval: {gpus: 9223372036854775807}}"), HasSubstr("65536 are the most"));
}

TEST(Placement, ThoseThatShareDevicesShareThemWhereTheyComeBack) {
  const Layout layout = laid_out(
      "{hosts: [a, b], gpus: [0, 1], actor: {gpus: 2, hosts: [a]}, rollout: {with: actor, tp: 2}}");
  const Place& engine = layout.engines[0];
  const std::vector<Moved> before = {{layout.actor[0], layout.actor[0]}, {layout.actor[1], layout.actor[1]}};
  EXPECT_EQ(with_its_sharers(engine, {"a"}, before), std::nullopt);
  const std::vector<Moved> after = {{layout.actor[0], {.host = "b", .gpus = {1}}},
                                    {layout.actor[1], {.host = "b", .gpus = {0}}}};
  EXPECT_EQ(with_its_sharers(engine, {"a"}, after), (Place{.host = "b", .gpus = {1, 0}}));
  EXPECT_EQ(with_its_sharers(engine, {"a", "b"}, after), std::nullopt);
  EXPECT_EQ(with_its_sharers({.host = "a"}, {"a"}, after), std::nullopt) << "it has no device to share";
  // All at once: the host that is left has no other devices.
  EXPECT_THROW(layout.elsewhere(engine, {"a"}, {after[0].now, after[1].now}), Error);
}

TEST(Placement, ARoleOfAHostThatIsGoneComesBackOnAnother) {
  const Layout gpus = laid_out("{hosts: [a, b, c], gpus: [0, 1], actor: {gpus: 2}, rollout: {gpus: 1, hosts: [b]}}");
  std::vector<Place> taken = gpus.actor;
  taken.push_back(gpus.engines[0]);
  EXPECT_EQ(text_of(gpus.elsewhere(gpus.engines[0], {"b"}, gpus.actor)), "c: GPU 0");
  EXPECT_EQ(text_of(gpus.elsewhere(gpus.actor[1], {"a"}, {gpus.engines[0]})), "c: GPU 0");
  EXPECT_EQ(text_of(gpus.elsewhere(gpus.actor[1], {"a", "c"}, {gpus.engines[0]})), "b: GPU 1");
  EXPECT_THROW(gpus.elsewhere({.host = "a", .gpus = {0, 1}}, {"a", "c"}, {gpus.engines[0]}), Error);
  const Layout cpus = laid_out("{hosts: [a, b, c], actor: {hosts: [a]}}");
  EXPECT_EQ(cpus.elsewhere(cpus.actor[0], {"a"}, {{.host = "b"}, {.host = "b"}, {.host = "c"}}).host, "c");
}

class PlacedRecipe : public ::testing::Test {
 protected:
  RecipeConfig load(const std::string& placement, const std::vector<std::string>& set = {}) {
    write_file_atomic(folder_.path() / "a.yaml",
                      "name: a\nmodel: {path: m, dtype: bfloat16}\nstages: [rl]\n"
                      "rl: {problems: p}\nplacement: " +
                          placement + "\n");
    return load_recipe(folder_.path() / "a.yaml", set);
  }
  TemporaryFolder folder_{"placed"};
};

TEST_F(PlacedRecipe, DecidesDevicesEnginesAndDegrees) {
  const RecipeConfig config = load("{actor: {gpus: 4, tp: 2, cp: 2}, rollout: {gpus: 2}, eval: {gpus: 2}}");
  EXPECT_EQ(config.model.device, "cuda:0");
  EXPECT_EQ(config.engine.count, 2);
  EXPECT_THAT(config.evaluator.devices, ElementsAre("cuda:0", "cuda:1"));
  EXPECT_FALSE(config.share_device);
  const train::TrainConfig trainer = trainer_config(config, config.rl.train, "rl", "m", "run", 3);
  EXPECT_EQ(trainer.parallel.tp, 2);
  EXPECT_EQ(trainer.parallel.cp, 2);
  EXPECT_EQ(trainer.parallel.dp, 1);
  EXPECT_EQ(trainer.device, "cuda:0");
}

TEST_F(PlacedRecipe, LeavesWhatIsNoDegreeOfTheTrainersRanks) {
  const RecipeConfig config = load(
      "{actor: {gpus: 2, dp: 2}, rollout: {gpus: 1}}",
      {"rl.train.parallel.peer_copies=false", "rl.train.parallel.timeout_s=7", "rl.train.parallel.lost_after_s=3"});
  const parallel::ParallelDims dims = trainer_config(config, config.rl.train, "rl", "m", "run", 3).parallel;
  EXPECT_EQ(dims.dp, 2);
  EXPECT_FALSE(dims.peer_copies);
  EXPECT_EQ(dims.timeout_s, 7);
  EXPECT_EQ(dims.lost_after_s, 3);
}

TEST_F(PlacedRecipe, GivesAnEngineTheGpusOfItsRanks) {
  const RecipeConfig config = load("{actor: {gpus: 2}, rollout: {gpus: 4, tp: 2}}");
  EXPECT_EQ(config.engine.count, 2);
  EXPECT_EQ(engine_options(config, "m").tp, 2);
  EXPECT_EQ(engine_options(config, "m").device, "cuda:0");
  EXPECT_THAT(config.layout().engines[1].gpus, ElementsAre(4, 5));
  const Plan plan = make_plan(config);
  const auto engine = std::ranges::find(plan.processes, "engine-1", &PlannedProcess::role);
  ASSERT_NE(engine, plan.processes.end());
  EXPECT_EQ(engine->device, "localhost: GPU 4, 5");
  EXPECT_EQ(engine->detail, "m bfloat16, tp 2");
}

TEST_F(PlacedRecipe, ThePlanSaysHowTheRouterChooses) {
  RecipeConfig config = load("{actor: {gpus: 2}, rollout: {gpus: 2}}");
  const auto said = [&] {
    const Plan plan = make_plan(config);
    return std::ranges::find(plan.processes, "router", &PlannedProcess::role)->detail;
  };
  EXPECT_EQ(said(), "least_loaded");
  config.router.policy = "cache_aware";
  EXPECT_EQ(said(), "cache_aware");
  config.router.admission.max_running = 24;
  EXPECT_EQ(said(), "cache_aware, 24 requests at once");
}

TEST_F(PlacedRecipe, RefusesDegreesThatAnEngineHasNot) {
  const auto error = [&](const std::string& rollout) {
    return error_of([&] { check_plan(load("{actor: {gpus: 1}, rollout: " + rollout + "}")); });
  };
  EXPECT_THAT(error("{gpus: 3, tp: 3}"), HasSubstr("'placement.rollout.tp' is 3: 1, 2, 4 or 8 ranks"));
  EXPECT_THAT(error("{gpus: 2, cp: 2}"), HasSubstr("an engine's ranks are of tp alone"));
  EXPECT_THAT(error("{gpus: 2, tp: 2}"), HasSubstr("model.path: no such folder"));
}

TEST_F(PlacedRecipe, DealsAPipelinesLayersInChunks) {
  const RecipeConfig config = load("{actor: {cores: 2, pp: 2, pp_chunks: 3}}");
  EXPECT_EQ(trainer_config(config, config.rl.train, "rl", "m", "run", 3).parallel.pp_chunks, 3);
  EXPECT_THAT(error_of([&] { load("{actor: {cores: 2, pp: 2}}", {"rl.train.parallel.pp_chunks=3"}); }),
              HasSubstr("'rl.train.parallel.pp_chunks' is 3 here, and 'placement' decides it (1)"));
}

TEST_F(PlacedRecipe, RefusesWhatIsAlsoWrittenByHand) {
  const std::string placement = "{actor: {gpus: 2, tp: 2}, rollout: {gpus: 2}}";
  const auto error = [&](const std::string& set) { return error_of([&] { load(placement, {set}); }); };
  EXPECT_THAT(error("model.device=cpu"), AllOf(HasSubstr("'model.device' is cpu here"), HasSubstr("(cuda:0)")));
  EXPECT_THAT(error("engine.count=3"), HasSubstr("'engine.count' is 3 here, and 'placement' decides it (2)"));
  EXPECT_THAT(error("evaluator.device=cuda:1"), HasSubstr("'evaluator.device'"));
  EXPECT_THAT(error("evaluator.devices=[cuda:1]"), HasSubstr("'evaluator.devices'"));
  EXPECT_THAT(error("share_device=true"), HasSubstr("'share_device'"));
  EXPECT_THAT(error("rl.train.parallel.tp=4"), HasSubstr("'rl.train.parallel.tp' is 4 here"));
  EXPECT_EQ(error("engine.count=2"), "no error");  // as a dump says it
}

TEST_F(PlacedRecipe, SurvivesADump) {
  const RecipeConfig config = load("{actor: {gpus: 2, tp: 2}, rollout: {gpus: 2}, eval: {with: rollout}}");
  write_file_atomic(folder_.path() / "dump.yaml", dump_config(config));
  EXPECT_EQ(dump_config(load_recipe(folder_.path() / "dump.yaml", {})), dump_config(config));
}

TEST_F(PlacedRecipe, GroupsThatCannotWorkTogetherAreRefused) {
  EXPECT_THAT(error_of([&] { load("{actor: {gpus: 1}, rollout: {engines: 2}}"); }),
              HasSubstr("actor and rollout alone"));
  EXPECT_THAT(
      error_of([&] { load("{actor: {gpus: 1}, rollout: {gpus: 1}, eval: {gpus: 2}}", {"evaluator.mode=live"}); }),
      HasSubstr("mode live uses 1"));
  EXPECT_THAT(error_of([&] { load("{eval: {gpus: 1}}", {"evaluator.mode=interpret"}); }), HasSubstr("uses none"));
}

TEST_F(PlacedRecipe, MayGoOnOnOtherDevicesButNotWithOtherDegrees) {
  const RecipeConfig before = load("{actor: {gpus: 2, tp: 2}, rollout: {gpus: 2}}");
  const auto changes = [&](const std::string& placement) { return deciding_changes(before, load(placement), {"rl"}); };
  EXPECT_THAT(changes("{hosts: [localhost], actor: {gpus: 2, tp: 2}, rollout: {gpus: 4}}"), IsEmpty());
  EXPECT_THAT(changes("{actor: {gpus: 4, tp: 2}, rollout: {gpus: 2}}"), ElementsAre("placement.actor.gpus: 2, now 4"));
}

TEST(Placement, WithoutTheSectionTheRecipeSaysWhereEverythingIs) {
  RecipeConfig config;
  config.engine.count = 3;
  const Layout layout = config.layout();
  EXPECT_FALSE(layout.given);
  EXPECT_EQ(layout.engines.size(), 3u);
  config.share_device = true;
  EXPECT_TRUE(config.layout().actor_shares);
}

TEST(LayoutTest, AStandbyHostIsUsedWhereDevicesAreNamedById) {
  Layout layout;
  layout.hosts = {"a", "b"};
  Place lost;
  lost.host = "a";
  lost.gpus = {2, 3};
  lost.cores = {4};
  const Place there = layout.elsewhere(lost, {"a"}, {});
  EXPECT_EQ(there.host, "b");
  EXPECT_EQ(there.gpus, lost.gpus);
  EXPECT_EQ(there.cores, lost.cores);
}

}  // namespace
}  // namespace tritonforge::orchestrate
