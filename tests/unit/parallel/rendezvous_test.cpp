#include "parallel/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tritonforge::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Three ranks that are a test's own words.
struct Job {
  Job() {
    for (int64_t rank = 0; rank < 3; ++rank) meeting.beat(rank, fmt::format("step {}", 7 + rank));
  }
  // What the job ended of, once these have said so often that they are there.
  std::string failure(const std::vector<int64_t>& alive) {
    const Deadline deadline = Deadline::after(20);
    while (!deadline.expired()) {
      for (const int64_t rank : alive) {
        if (const auto failed = meeting.beat(rank, "step 7")) return *failed;
      }
      std::this_thread::yield();
    }
    return "nothing";
  }
  Rendezvous rendezvous{{}, 3, /*lost_after_s=*/60, /*beat_s=*/0.05};
  Meeting meeting{rendezvous.url(), ""};
};

// Whose connection to it broke hears of a rank's death long before it has been silent for lost_after_s.
TEST(Rendezvous, WhoIsGoneIsNamedAndNotWhoNoticed) {
  Job job;
  job.meeting.report_failure(0, "gradients: Connection closed by peer", /*of_another=*/true);
  job.meeting.report_failure(2, "gradients: Connection closed by peer", /*of_another=*/true);  // and ends
  EXPECT_THAT(job.failure({0}), AllOf(StartsWith("rank 1: it is gone"), HasSubstr("rank 0: gradients: Connection"),
                                      HasSubstr("rank 1 was at step 8")));
}

// Three beats are little for a rank that has much to do: where several said nothing, each may be the one.
TEST(Rendezvous, OfSeveralThatAreSilentNoneIsNamedAlone) {
  Job job;
  job.meeting.report_failure(0, "gradients: Connection closed by peer", /*of_another=*/true);
  EXPECT_THAT(job.failure({0}), StartsWith("rank 1: it is gone, or rank 2 is; rank 0: gradients: Connection"));
}

TEST(Rendezvous, AConnectionThatBrokeBetweenLivingRanksEndsTheJobAsTheFirstOneSays) {
  Job job;
  job.meeting.report_failure(2, "gradients: Connection reset", /*of_another=*/true);
  job.meeting.report_failure(0, "gradients: Connection closed by peer", /*of_another=*/true);
  EXPECT_THAT(job.failure({0, 1, 2}), StartsWith("rank 2: gradients: Connection reset"));
}

TEST(Rendezvous, ARanksOwnFailureCountsAtOnceAndBeforeWhatItBroke) {
  Job job;
  job.meeting.report_failure(0, "gradients: Connection closed by peer", /*of_another=*/true);
  job.meeting.report_failure(1, "no memory", /*of_another=*/false);
  EXPECT_THAT(job.meeting.beat(0, "step 7").value_or("nothing"), StartsWith("rank 1: no memory"));
}

TEST(Rendezvous, WhoIsNoRankEndsNoJob) {
  Job job;
  for (const int64_t nobody : {int64_t{-1}, int64_t{3}}) {
    try {
      job.meeting.report_failure(nobody, "nonsense", /*of_another=*/true);
      ADD_FAILURE() << nobody;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    }
  }
  job.meeting.report_failure(2, "gradients: Connection reset", /*of_another=*/true);
  EXPECT_THAT(job.failure({0, 1, 2}), StartsWith("rank 2: gradients: Connection reset"));
}

// A server lets one request wait for 20 s at most.
TEST(Meeting, WaitsAsLongAsItIsToldToHoweverOftenItHasToAsk) {
  std::atomic<int> asked{0};
  net::HttpServer server({});
  server.route("GET", "/keys/relay-over", [&](const net::Request&) {
    return ++asked < 3 ? net::Response::error(Error(ErrorKind::kNotFound, "not there")) : net::Response::text("all");
  });
  server.start();
  Meeting meeting(server.url(), "");
  EXPECT_EQ(meeting.look("relay-over", 600), "all");
  EXPECT_EQ(meeting.look("another", 0), std::nullopt);
}

}  // namespace
}  // namespace tritonforge::parallel
