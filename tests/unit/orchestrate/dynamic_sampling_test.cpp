#include "orchestrate/dynamic_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tritonforge::orchestrate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A buffer by its rules: a lease holds its groups until it is released, and is given again as it was.
struct FakeBuffer {
  explicit FakeBuffer(std::set<std::string> flat) : flat(std::move(flat)) {}

  Lease lease(const LeaseRequest& request) {
    if (leases.contains(request.lease_id)) {
      if (!request.group_ids.empty() && request.group_ids != leases[request.lease_id])
        fail(ErrorKind::kConflict, "lease {} holds other groups", request.lease_id);
    } else {
      EXPECT_EQ(request.count, static_cast<int64_t>(request.group_ids.size()));
      EXPECT_FALSE(request.group_ids.empty());
      for (const auto& [id, held] : leases) {
        for (const std::string& group : held) {
          if (std::find(request.group_ids.begin(), request.group_ids.end(), group) != request.group_ids.end())
            fail(ErrorKind::kConflict, "group {} is with lease {}", group, id);
        }
      }
      leases[request.lease_id] = request.group_ids;
    }
    Lease lease;
    lease.id = request.lease_id;
    for (const std::string& id : leases[request.lease_id]) {
      lease.groups.push_back({id, "p", {}, {}});
      if (flat.contains(id)) lease.dropped.push_back({id, "zero_variance"});
    }
    return lease;
  }
  BufferCalls calls() {
    return {.submit =
                [this](const std::vector<GroupSpec>& groups) {
                  for (const GroupSpec& group : groups) submitted.push_back(group.id);
                },
            .lease = [this](const LeaseRequest& request) { return lease(request); },
            .release = [this](const std::string& id) { leases.erase(id); }};
  }

  std::set<std::string> flat;  // groups that teach nothing
  std::map<std::string, std::vector<std::string>> leases;
  std::vector<std::string> submitted;
};

GroupSpec group(size_t index) {
  GroupSpec spec;
  spec.id = fmt::format("g{}", index);
  return spec;
}

std::vector<std::string> ids_of(const Lease& lease) {
  std::vector<std::string> ids;
  for (const LeasedGroup& each : lease.groups) ids.push_back(each.group_id);
  return ids;
}

const LeaseRequest kStep{.lease_id = "step", .count = 3, .group_ids = {"g0", "g1", "g2"}};

TEST(DynamicSampling, WhatTeachesNothingIsReplacedUntilThereIsEnough) {
  FakeBuffer buffer({"g0", "g2", "g4"});  // 1 of 3 teaches; of the two that replace, one; then one more
  const Lease lease = lease_informative(buffer.calls(), kStep, 4, group);
  EXPECT_EQ(lease.id, "step");
  EXPECT_THAT(ids_of(lease), ElementsAre("g0", "g1", "g2", "g3", "g4", "g5"));
  EXPECT_EQ(lease.groups.size() - lease.dropped.size(), 3u);
  EXPECT_THAT(buffer.submitted, ElementsAre("g3", "g4", "g5"));
  EXPECT_EQ(buffer.leases.size(), 1u);  // nothing else is held
}

TEST(DynamicSampling, ItsRoundsAreBounded) {
  FakeBuffer buffer({"g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"});
  EXPECT_EQ(lease_informative(buffer.calls(), kStep, 2, group).groups.size(), 9u);
  EXPECT_EQ(buffer.submitted.size(), 6u);
}

TEST(DynamicSampling, OffItIsOneLease) {
  FakeBuffer buffer({"g0"});
  EXPECT_THAT(ids_of(lease_informative(buffer.calls(), kStep, 0, group)), ElementsAre("g0", "g1", "g2"));
  EXPECT_THAT(buffer.submitted, IsEmpty());
}

TEST(DynamicSampling, ARestartGetsTheLeaseThatWasTaken) {
  FakeBuffer buffer({"g0"});
  const auto before = ids_of(lease_informative(buffer.calls(), kStep, 2, group));
  buffer.submitted.clear();
  EXPECT_EQ(ids_of(lease_informative(buffer.calls(), kStep, 2, group)), before);
  EXPECT_THAT(buffer.submitted, IsEmpty());
}

TEST(DynamicSampling, ALookThatARestartLeftIsGivenBack) {
  FakeBuffer buffer({});
  buffer.leases["step-look-1"] = kStep.group_ids;
  EXPECT_THAT(ids_of(lease_informative(buffer.calls(), kStep, 2, group)), ElementsAre("g0", "g1", "g2"));
  EXPECT_EQ(buffer.leases.size(), 1u);
}

TEST(DynamicSampling, ALaterLookThatARestartLeftIsGivenBack) {
  FakeBuffer buffer({"g0"});
  buffer.leases["step-look-2"] = {"g0", "g1", "g2", "g3"};
  EXPECT_THAT(ids_of(lease_informative(buffer.calls(), kStep, 2, group)), ElementsAre("g0", "g1", "g2", "g3"));
  EXPECT_EQ(buffer.leases.size(), 1u);
}

}  // namespace
}  // namespace tritonforge::orchestrate
