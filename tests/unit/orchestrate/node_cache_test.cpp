#include "orchestrate/node_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::orchestrate {
namespace {

using std::chrono::hours;

fs::path make_bundle(const fs::path& nodes, const std::string& name, hours age, bool whole = true) {
  const fs::path bundle = nodes / name;
  fs::create_directories(bundle / "bin");
  write_file_atomic(bundle / "bin/tritonforge", "");
  const auto then = fs::file_time_type::clock::now() - age;
  if (whole) {
    write_file_atomic(bundle / ".complete", "");
    fs::last_write_time(bundle / ".complete", then);
  }
  fs::last_write_time(bundle, then);
  return bundle;
}

TEST(NodeCache, WhatNobodyRunsFromGoesAWeekAfterItWasNamedLast) {
  const TemporaryFolder nodes("node-cache");
  const fs::path own = make_bundle(nodes.path(), "own", hours(1000));
  make_bundle(nodes.path(), "yesterday", hours(24));
  make_bundle(nodes.path(), "old", hours(8 * 24));
  make_bundle(nodes.path(), "being-copied", hours(1), /*whole=*/false);
  make_bundle(nodes.path(), "cut-off", hours(30), /*whole=*/false);
  const fs::path running = make_bundle(nodes.path(), "running", hours(1000));
  const auto there = [&] { return names_in(nodes.path(), [](const fs::path&) { return true; }); };
  {
    const Descriptor held = hold_bundle(running);
    sweep_bundles(own);
    EXPECT_THAT(there(), testing::ElementsAre("being-copied", "own", "running", "yesterday"));
  }
  sweep_bundles(running);  // names it, a thousand hours later
  sweep_bundles(own);
  EXPECT_THAT(there(), testing::ElementsAre("being-copied", "own", "running", "yesterday"));
  fs::last_write_time(running / ".complete", fs::file_time_type::clock::now() - hours(1000));
  sweep_bundles(own);
  EXPECT_THAT(there(), testing::ElementsAre("being-copied", "own", "yesterday"));
}

fs::path make_environment(const fs::path& folder, const std::string& name, hours age, bool brought = true) {
  const fs::path environment = folder / name;
  fs::create_directories(environment / "bin");
  for (const std::string file : {"pyvenv.cfg", ".complete", "bin/python"}) write_file_atomic(environment / file, "");
  if (brought) write_file_atomic(environment / kBrought, "");
  for (const std::string file : {".complete", ".brought", ""}) {
    const fs::path dated = environment / file;
    if (fs::exists(dated)) fs::last_write_time(dated, fs::file_time_type::clock::now() - age);
  }
  return environment;
}

TEST(NodeCache, AnEnvironmentThatWasBroughtGoesByTheSameRuleAndNoOther) {
  const TemporaryFolder folder("node-environments");
  const fs::path own = make_environment(folder.path(), "own", hours(1000));
  make_environment(folder.path(), "yesterday", hours(24));
  make_environment(folder.path(), "old", hours(8 * 24));
  make_environment(folder.path(), "the-hosts-own", hours(1000), /*brought=*/false);
  const fs::path running = make_environment(folder.path(), "running", hours(1000));
  const auto there = [&] { return names_in(folder.path(), [](const fs::path&) { return true; }); };
  {
    const Descriptor held = hold_environment(running);
    sweep_environments(own);
    EXPECT_THAT(there(), testing::ElementsAre("own", "running", "the-hosts-own", "yesterday"));
  }
  sweep_environments(running);  // names it, a thousand hours later
  sweep_environments(folder.path() / "the-hosts-own");
  EXPECT_THAT(there(), testing::ElementsAre("own", "running", "the-hosts-own", "yesterday"));
  EXPECT_FALSE(fs::exists(folder.path() / "the-hosts-own" / kBrought));
  EXPECT_LT(hold_environment(folder.path() / "the-hosts-own").get(), 0);
}

TEST(NodeCache, AProgramThatWasNotBroughtHereTouchesNothing) {
  EXPECT_EQ(own_bundle(), fs::path());
  EXPECT_LT(hold_bundle({}).get(), 0);
  sweep_bundles({});
  EXPECT_LT(hold_environment({}).get(), 0);
  sweep_environments({});
}

}  // namespace
}  // namespace tritonforge::orchestrate
