#include "evaluate/zygote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/filesystem.h"
#include "evaluate/child_pool.h"
#include "evaluate/self_test.h"

namespace tritonforge::evaluate {
namespace {

// With a GPU on the machine or without one: what a child may ask the driver for is decided when it is forked.
TEST(ZygoteTest, OnlyAChildThatIsGrantedTheGpuFindsIt) {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  Zygote zygote({.gpu = true});
  EXPECT_EQ(test_sandbox(zygote, false, Deadline::after(60)).attempts.at("gpu"), "ENOENT");
  EXPECT_EQ(test_sandbox(zygote, true, Deadline::after(60)).attempts.at("gpu"), "succeeded");
  EXPECT_EQ(test_sandbox(zygote, false, Deadline::after(60)).attempts.at("gpu"), "ENOENT");
}

TEST(ZygoteTest, AChildOfAPoolIsKeptForItsJobsAndNotLonger) {
  Zygote zygote({});
  ChildPool pool(zygote, "probe", {}, 2);
  auto worker = pool.take(Deadline::after(60));
  const fs::path first = worker.child->folder();
  pool.give_back(std::move(worker));
  worker = pool.take(Deadline::after(60));
  EXPECT_EQ(worker.child->folder(), first);
  pool.give_back(std::move(worker));  // its second job, the last one
  worker = pool.take(Deadline::after(60));
  const fs::path second = worker.child->folder();
  EXPECT_NE(second, first);
  worker.child->kill();
  worker.child->ending(Deadline::after(60));
  pool.give_back(std::move(worker));
  EXPECT_NE(pool.take(Deadline::after(60)).child->folder(), second);  // it is dead
}

TEST(ZygoteTest, AsManyChildrenOfAPoolAreKeptAsWereAtWorkAtOnceEachPreparedOnce) {
  constexpr int kAtOnce = 20;
  Zygote zygote({});
  int prepared = 0;
  ChildPool pool(zygote, "probe", {}, 9, [&](Child&, Deadline) { ++prepared; });
  for (int round = 0; round < 2; ++round) {
    std::vector<ChildPool::Worker> workers;
    for (int k = 0; k < kAtOnce; ++k) workers.push_back(pool.take(Deadline::after(60)));
    for (auto& worker : workers) pool.give_back(std::move(worker));
  }
  EXPECT_EQ(prepared, kAtOnce);
}

TEST(ZygoteTest, AGpuThatIsNotThereIsNotGranted) {
  Zygote zygote({});
  try {
    zygote.spawn("probe", ChildLimits{}.with_gpu(), Deadline::after(60));
    ADD_FAILURE() << "a child was granted it";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  }
}

TEST(ZygoteTest, AParentThatCannotServeSaysWhy) {
  const TemporaryFolder folder("tritonforge-worker-");
  fs::create_directory(folder.path() / "tritonforge_worker");
  write_file_atomic(
      folder.path() / "tritonforge_worker" / "zygote.py",
      "import socket, sys\nsocket.socket(fileno=int(sys.argv[1])).send(b'{\"error\": \"it is Monday\"}')\n");
  try {
    Zygote zygote({.worker = folder.path()});
    ADD_FAILURE() << "it serves";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMachine);
    EXPECT_THAT(error.what(), testing::EndsWith("does not start: it is Monday"));
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
