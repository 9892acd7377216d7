#include "orchestrate/ray_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/filesystem.h"

namespace tritonforge::orchestrate {
namespace {

using testing::HasSubstr;
using Resources = std::map<std::string, double>;

const std::set<std::string> kAll = {"actor", "rollout", "eval"};

std::vector<Resources> resources_of(const std::vector<RayBundle>& bundles) {
  std::vector<Resources> all;
  for (const RayBundle& bundle : bundles) all.push_back(bundle.resources);
  return all;
}

TEST(RayGroups, AreABundleAProcessWithItsDevicesOnItsNode) {
  PlacementSection section;
  section.hosts = {"10.0.0.1", "10.0.0.2"};
  section.gpus = {0, 1, 2, 3};
  section.actor.devices.gpus = 4;
  section.actor.degrees.tp = 2;
  section.rollout.devices.gpus = 2;
  section.eval.devices.gpus = 2;
  const auto groups = ray_groups(lay_out(section), kAll);
  const Resources first = {{"CPU", 1}, {"GPU", 1}, {"node:10.0.0.1", 0.001}};
  const Resources second = {{"CPU", 1}, {"GPU", 1}, {"node:10.0.0.2", 0.001}};
  EXPECT_EQ(resources_of(groups.at("actor")), std::vector<Resources>(4, first));
  EXPECT_EQ(resources_of(groups.at("rollout")), std::vector<Resources>(2, second));
  EXPECT_EQ(resources_of(groups.at("eval")),
            std::vector<Resources>({{{"CPU", 1}, {"GPU", 2}, {"node:10.0.0.2", 0.001}}}));
  EXPECT_EQ(groups.at("actor")[3].role, "trainer");
  EXPECT_EQ(groups.at("actor")[3].rank, 3u);
  EXPECT_EQ(groups.at("rollout")[1].role, "engine-1");
  EXPECT_EQ(groups.at("rollout")[1].rank, 0u);
}

TEST(RayGroups, CountASharedGpuOnceAndCoresWhereTheyAreBound) {
  PlacementSection section;
  section.hosts = {"10.0.0.1"};
  section.gpus = {0, 1};
  section.actor.devices.gpus = 2;
  section.actor.devices.cores = 8;
  section.rollout.with = "actor";
  section.eval.with = "rollout";
  const auto groups = ray_groups(lay_out(section), kAll);
  const Resources rank = {{"CPU", 4}, {"GPU", 1}, {"node:10.0.0.1", 0.001}};
  EXPECT_EQ(resources_of(groups.at("actor")), std::vector<Resources>(2, rank));
  for (const char* group : {"rollout", "eval"})
    for (const RayBundle& bundle : groups.at(group)) EXPECT_FALSE(bundle.resources.contains("GPU")) << group;
}

TEST(RayGroups, LeaveOutLocalhostAndWhatNoStageUses) {
  PlacementSection section;
  section.hosts = {"localhost", "10.0.0.2"};
  section.actor.devices.hosts = {"localhost"};
  section.rollout.devices.hosts = {"localhost", "10.0.0.2"};
  section.rollout.engines = 2;
  section.eval.devices.hosts = {"10.0.0.2"};
  const auto groups = ray_groups(lay_out(section), {"actor", "rollout"});
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups.at("rollout").size(), 1u);
  EXPECT_EQ(groups.at("rollout")[0].role, "engine-1");
}

std::string refusal(const std::string& address) {
  try {
    return "taken as " + ray_address(address);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RayAddress, IsHostAndPortAndEverythingElseNamesTheRightThing) {
  EXPECT_EQ(ray_address("10.0.0.1:6379"), "10.0.0.1:6379");
  EXPECT_THAT(refusal("ray://10.0.0.1:10001"), HasSubstr("tritonforge submit --ray-address http://"));
  EXPECT_THAT(refusal("http://10.0.0.1:8265"), HasSubstr("tritonforge submit"));
  for (const char* wrong : {"10.0.0.1", ":6379", "10.0.0.1:", "10.0.0.1:x"})
    EXPECT_THAT(refusal(wrong), HasSubstr("is not HOST:PORT")) << wrong;
}

TEST(RayAddress, AutoIsTheVariableThenTheClusterOfThisMachine) {
  const fs::path folder = fs::path(testing::TempDir()) / "ray_address";
  fs::create_directories(folder / "ray");
  ::setenv("RAY_TMPDIR", folder.c_str(), 1);
  ::unsetenv("RAY_ADDRESS");
  EXPECT_THAT(refusal("auto"), HasSubstr("no Ray runs on this machine"));
  write_file_atomic(folder / "ray/ray_current_cluster", "10.0.0.3:6379\n");
  EXPECT_EQ(ray_address("auto"), "10.0.0.3:6379");
  ::setenv("RAY_ADDRESS", "10.0.0.4:6379", 1);
  EXPECT_EQ(ray_address("auto"), "10.0.0.4:6379");
  ::unsetenv("RAY_ADDRESS");
  ::unsetenv("RAY_TMPDIR");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tritonforge::orchestrate
