#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "dataset/pair.h"
#include "orchestrate/stages.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::HasSubstr;

// The data stage of a run whose evaluator is a server of the test.
class VerifyPairs : public testing::Test {
 protected:
  static constexpr int kPairs = 2000, kWorkers = 2;

  // What it ended with, where `answer` says what the n-th evaluation (from 1) is answered.
  std::string error_where(const std::function<net::Response(int n)>& answer) {
    std::string pairs;
    for (int i = 0; i < kPairs; ++i)
      pairs += to_json(dataset::Pair{.id = fmt::format("pair-{}", i), .split = "train"}).dump() + "\n";
    write_file_atomic(folder.path() / "pairs.jsonl", pairs);
    RecipeConfig config;
    config.data.pairs = (folder.path() / "pairs.jsonl").string();
    config.data.verify = kPairs;
    config.evaluator.workers = kWorkers;
    RunRecord record(folder.path() / "run", /*resume=*/false);
    RunContext run(config, record, std::make_unique<Launcher>());
    const std::string& url = run.evaluator.url();
    net::HttpServer server({.port = std::stoi(url.substr(url.rfind(':') + 1)), .worker_threads = kWorkers});
    server.route("POST", "/v2/evaluations", [&](const net::Request&) { return answer(++asked); });
    server.start();
    try {
      verify_pairs(run);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static net::Response verdict(bool correct) {
    Verdict verdict;
    verdict.correct = correct;
    return net::Response::json(to_json(verdict));
  }

  TemporaryFolder folder{"sft-stage"};
  std::atomic<int> asked{0};
};

TEST_F(VerifyPairs, AllAreAskedForWhereAllAreRight) {
  EXPECT_EQ(error_where([](int) { return verdict(true); }), "");
  EXPECT_EQ(asked, kPairs);
}

TEST_F(VerifyPairs, TheFirstErrorEndsIt) {
  const auto answer = [](int n) {
    return n == 1 ? net::Response::error(Error(ErrorKind::kUsage, "no such mode")) : verdict(true);
  };
  EXPECT_THAT(error_where(answer), HasSubstr("no such mode"));
  EXPECT_LT(asked, kPairs);
}

TEST_F(VerifyPairs, TheFirstWrongPairEndsIt) {
  EXPECT_THAT(error_where([](int n) { return verdict(n != 1); }),
              HasSubstr("holds a pair that the evaluator does not"));
  EXPECT_LT(asked, kPairs);
}

}  // namespace
}  // namespace tritonforge::orchestrate
