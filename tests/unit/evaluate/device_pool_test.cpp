#include "evaluate/device_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include "evaluate/plan_mode.h"

namespace tritonforge::evaluate {
namespace {

// A name in a pool whose probe the test answers.
class NamedDevice : public Device {
 public:
  explicit NamedDevice(std::string name) : name_(std::move(name)) {}
  std::string uuid() const override { return name_; }
  std::string name() const override { return name_; }
  std::string target() const override { return std::string(kThisCpu); }
  bool may_hang() const override { return true; }
  ChildPool& replayers() override { throw std::logic_error("nothing runs here"); }
  ChildPool& references() override { throw std::logic_error("nothing runs here"); }

 private:
  std::string name_;
};

std::vector<std::unique_ptr<Device>> devices(const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Device>> out;
  for (const auto& name : names) out.push_back(std::make_unique<NamedDevice>(name));
  return out;
}

using Result = DevicePool::Result;
constexpr DevicePoolOptions kPatient{.first_pause_s = 3600, .longest_pause_s = 3600};

TEST(DevicePool, AJobOfADyingDeviceIsRunElsewhereAndTheDeviceIsQuarantined) {
  DevicePool pool(devices({"a", "b"}), [](Device& device) { return device.uuid() == "a" ? "dead" : ""; }, kPatient);
  std::map<std::string, int> done;
  for (int job = 0; job < 20; ++job) {
    pool.run(
        [&](Device& device) {
          if (device.uuid() == "a") throw DeviceFault{"lost"};
          ++done[device.uuid()];
          return Result::kSure;
        },
        {});
  }
  EXPECT_EQ(done, (std::map<std::string, int>{{"b", 20}}));
  const Json status = pool.status();
  EXPECT_EQ(status[0]["state"], "quarantined");
  EXPECT_EQ(status[0]["failed_probes"], DevicePool::kProbes);
  EXPECT_EQ(status[0]["fault_count"], 1);
  EXPECT_EQ(status[1]["state"], "healthy");
  EXPECT_EQ(status[1]["fault_count"], 0);
}

TEST(DevicePool, AJobThatCostsHealthyDevicesTheirProcessesIsToBlameAndTheyAreNot) {
  DevicePool pool(devices({"a", "b"}), [](Device&) { return ""; });
  for (int job = 0; job < 50; ++job) pool.run([](Device&) { return Result::kSure; }, {});
  int tries = 0;
  EXPECT_THROW(pool.run(
                   [&](Device&) -> Result {
                     ++tries;
                     throw DeviceFault{"lost"};
                   },
                   {}),
               DeviceFault);
  EXPECT_GT(tries, 1);
  EXPECT_LT(tries, 10);
  for (const Json& one : pool.status()) {
    EXPECT_EQ(one["fault_count"], 0);
    EXPECT_EQ(one["state"], "healthy");
  }
}

// Though it has lost none: its probe is what fails.
TEST(DevicePool, ADeviceInQuarantineTakesNoJobs) {
  DevicePool pool(devices({"a", "b"}), [](Device& device) { return device.uuid() == "a" ? "dead" : ""; }, kPatient);
  std::map<std::string, int> asked;
  for (int job = 0; job < 5; ++job) {
    pool.run(
        [&](Device& device) {
          if (++asked[device.uuid()] > 5) throw std::logic_error("asked again and again");
          return Result::kDoubtful;
        },
        {});
  }
  EXPECT_EQ(asked, (std::map<std::string, int>{{"a", 1}, {"b", 5}}));
  EXPECT_EQ(pool.status()[0]["fault_count"], 0);
}

// The rate at which a device loses any job is what makes a loss tell little of this one.
TEST(DevicePool, ADeviceThatLosesManyJobsIsBelievedLess) {
  DevicePool flaky(devices({"a"}), [](Device&) { return ""; });
  for (int job = 0; job < 100; ++job) {
    bool lost = job % 2 == 0;
    flaky.run(
        [&](Device&) {
          if (std::exchange(lost, false)) throw DeviceFault{"lost"};
          return Result::kSure;
        },
        {});
  }
  int tries = 0;
  flaky.run(
      [&](Device&) {
        if (++tries <= 8) throw DeviceFault{"lost"};
        return Result::kSure;
      },
      {});
  EXPECT_EQ(tries, 9);
}

TEST(DevicePool, AResultThatADyingDeviceMightGiveStandsOnlyWhereItsProbeIsRight) {
  bool dead = true;
  DevicePool pool(
      devices({"a", "b"}), [&](Device& device) { return device.uuid() == "a" && dead ? "dead" : ""; }, kPatient);
  std::vector<std::string> ran;
  pool.run(
      [&](Device& device) {
        ran.push_back(device.uuid());
        return Result::kDoubtful;
      },
      {});
  EXPECT_EQ(ran, (std::vector<std::string>{"a", "b"}));
}

// Jobs that end while a probe is under way wait for the next one, and for no further one of their own.
TEST(DevicePool, JobsInDoubtShareTheProbeThatBeginsAfterTheirEnd) {
  constexpr int kJobs = 8;
  std::promise<void> probed;
  std::atomic<int> probes = 0;
  std::unique_ptr<DevicePool> pool;
  const auto probe = [&](Device&) {
    if (++probes > 1) return "";
    probed.set_value();
    while (pool->status()[0]["jobs"] != kJobs) std::this_thread::yield();
    return "";
  };
  pool = std::make_unique<DevicePool>(devices({"a"}), probe);
  const std::shared_future<void> first_is_probed = probed.get_future().share();
  std::latch begun(kJobs);
  std::vector<std::future<void>> jobs;
  for (int job = 0; job < kJobs; ++job) {
    jobs.push_back(std::async(std::launch::async, [&, job] {
      pool->run(
          [&](Device&) {
            begun.arrive_and_wait();  // all before any probe: nobody takes a device that is suspect
            if (job > 0) first_is_probed.wait();
            return Result::kDoubtful;
          },
          {});
    }));
  }
  for (auto& job : jobs) job.get();
  EXPECT_EQ(probes, 2);
}

TEST(DevicePool, WhatEndsWhileItIsRecordedIsNoDoingOfAGpus) {
  Verdict verdict;
  verdict.mode = EvaluationMode::kPlan;
  verdict.fault = Fault::kRuntimeError;
  EXPECT_FALSE(may_be_the_gpus(verdict));
  verdict.compile_targets["sm_90"] = "ok";
  EXPECT_TRUE(may_be_the_gpus(verdict));
  verdict.fault = Fault::kMismatch;
  EXPECT_FALSE(may_be_the_gpus(verdict));
  verdict.compile_targets.clear();
  verdict.fault = Fault::kTimeout;
  EXPECT_FALSE(may_be_the_gpus(verdict));
  verdict.mode = EvaluationMode::kLive;  // the candidate's own process has it
  EXPECT_TRUE(may_be_the_gpus(verdict));
  verdict.mode = EvaluationMode::kPlan;
  verdict.fault = Fault::kProblemError;
  EXPECT_TRUE(may_be_the_gpus(verdict));
}

TEST(DevicePool, AResetDeviceIsProbedAndTakesJobsAgain) {
  std::atomic<bool> dead = true;
  DevicePool pool(devices({"a"}), [&](Device&) { return dead ? "dead" : ""; }, kPatient);
  const auto lose_one = [&] {
    bool lost = true;
    pool.run(
        [&](Device&) {
          if (std::exchange(lost, false)) throw DeviceFault{"lost"};
          return Result::kSure;
        },
        Deadline::after(0.05));
  };
  try {
    lose_one();
    ADD_FAILURE() << "a job was done on a dead device";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("a is quarantined: dead"), std::string::npos) << error.what();
  }
  dead = false;
  pool.reset(0);
  pool.run([](Device&) { return Result::kSure; }, {});
  EXPECT_EQ(pool.status()[0]["state"], "healthy");
  EXPECT_THROW(pool.reset(1), Error);
}

TEST(DevicePool, JobsAreSharedOutByLoad) {
  DevicePool pool(devices({"a", "b", "c"}), [](Device&) { return ""; });
  std::promise<void> over;
  const auto wait = over.get_future().share();
  std::vector<std::future<void>> jobs;
  for (int i = 0; i < 6; ++i) {
    jobs.push_back(std::async(std::launch::async, [&] {
      pool.run(
          [&](Device&) {
            wait.wait();
            return Result::kSure;
          },
          {});
    }));
  }
  const auto busy = [&] {
    int sum = 0;
    for (const Json& one : pool.status()) sum += one["busy"].get<int>();
    return sum;
  };
  const Deadline bound = Deadline::after(60);
  while (busy() < 6) ASSERT_FALSE(bound.expired());
  for (const Json& one : pool.status()) EXPECT_EQ(one["busy"], 2);
  over.set_value();
  for (auto& job : jobs) job.get();
  EXPECT_EQ(busy(), 0);
}

// Another job's probe is under way; its end is what the second job waits for, not its own deadline.
TEST(DevicePool, AJobIsTakenAsSoonAsTheOnlyDeviceIsWellAgain) {
  std::promise<void> begun, answer;
  const auto answered = answer.get_future().share();
  bool first = true;
  DevicePool pool(devices({"a"}), [&](Device&) {
    if (std::exchange(first, false)) begun.set_value();
    answered.wait();
    return "";
  });
  auto loses = std::async(std::launch::async, [&] {
    bool lost = true;
    pool.run(
        [&](Device&) {
          if (std::exchange(lost, false)) throw DeviceFault{"lost"};
          return Result::kSure;
        },
        {});
  });
  begun.get_future().wait();
  std::promise<void> done;
  auto waits = std::async(std::launch::async, [&] {
    pool.run([](Device&) { return Result::kSure; }, Deadline::after(3000));
    done.set_value();
  });
  auto is_done = done.get_future();
  EXPECT_EQ(is_done.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  answer.set_value();
  EXPECT_EQ(is_done.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  loses.get();
  waits.get();
}

TEST(DevicePool, NobodyWaitsForADeviceWhoseClientLeft) {
  DevicePool pool(devices({"a"}), [](Device&) { return "dead"; }, kPatient);
  std::stop_source left;
  auto job = std::async(std::launch::async, [&] {
    pool.run([](Device&) -> Result { throw DeviceFault{"lost"}; }, {Deadline::after(600), left.get_token()});
  });
  const Deadline bound = Deadline::after(60);
  while (pool.status()[0]["state"] != "quarantined") ASSERT_FALSE(bound.expired());
  left.request_stop();
  EXPECT_THROW(job.get(), Error);
}

}  // namespace
}  // namespace tritonforge::evaluate
