#include "evaluate/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

std::string said_of(const Json& body, bool legacy = false) {
  try {
    evaluation_request_from_json(body, legacy);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(EvaluationRequest, EveryFieldIsRead) {
  const auto request = evaluation_request_from_json({{"problem", {{"id", "p"}, {"source", "s"}}},
                                                     {"candidate", "c"},
                                                     {"mode", "live"},
                                                     {"seed", 7},
                                                     {"fresh_seeds", false},
                                                     {"num_correct_trials", 2},
                                                     {"num_perf_trials", 30},
                                                     {"measure_performance", false},
                                                     {"backend", "opencl"},
                                                     {"timeout_s", 5}},
                                                    /*legacy=*/false);
  EXPECT_EQ(request.problem_id, "p");
  EXPECT_EQ(request.problem_source, "s");
  EXPECT_EQ(request.candidate, "c");
  EXPECT_EQ(request.mode, EvaluationMode::kLive);
  EXPECT_EQ(request.seed, 7u);
  EXPECT_FALSE(request.fresh_seeds);
  EXPECT_EQ(request.num_correct_trials, 2);
  EXPECT_EQ(request.num_perf_trials, 30);
  EXPECT_FALSE(request.measure_performance);
  EXPECT_EQ(request.backend, Backend::kOpencl);
  EXPECT_EQ(request.timeout_s, 5);
}

TEST(EvaluationRequest, WhatIsWrongIsNamed) {
  const Json problem = {{"source", "s"}};
  EXPECT_THAT(said_of({{"problem", problem}, {"candidte", "c"}}), HasSubstr("did you mean 'candidate'?"));
  EXPECT_THAT(said_of({{"problem", "s"}, {"candidate", "c"}}), HasSubstr("'problem' is not an object"));
  EXPECT_THAT(said_of({{"problem", {{"source", "s"}, {"idd", "p"}}}, {"candidate", "c"}}),
              HasSubstr("problem: unknown field 'idd' (did you mean 'id'?)"));
  EXPECT_THAT(said_of({{"problem", problem}}), HasSubstr("field 'candidate' is missing"));
  EXPECT_THAT(said_of({{"problem", problem}, {"candidate", "c"}, {"timeout_s", 0}}),
              HasSubstr("'timeout_s' must be above 0"));
  EXPECT_THAT(said_of(Json::array()), HasSubstr("expected an object"));
  EXPECT_THAT(said_of(Json::array(), /*legacy=*/true), HasSubstr("not a JSON object"));
}

TEST(EvaluationRequest, AProblemsIsTheSameWithoutACandidate) {
  const Json body = {{"problem", {{"id", "p"}, {"source", "class Model"}}}, {"seed", 7}, {"num_correct_trials", 3}};
  const EvaluationRequest request = problem_request_from_json(body);
  EXPECT_EQ(request.problem_id, "p");
  EXPECT_EQ(request.seed, 7);
  EXPECT_EQ(request.num_correct_trials, 3);
  Json with_candidate = body;
  with_candidate["candidate"] = "class ModelNew";
  EXPECT_THROW(problem_request_from_json(with_candidate), Error);
  EXPECT_THROW(problem_request_from_json(Json::array()), Error);
}

TEST(EvaluationRequest, TheLegacyFormTakesItsClientsExtraFieldsAndNames) {
  const auto request = evaluation_request_from_json({{"original_model_src", "s"},
                                                     {"custom_model_src", "c"},
                                                     {"seed_num", 3},
                                                     {"backend", "cuda"},
                                                     {"preferred_device", 0},
                                                     {"verbose", true}},
                                                    /*legacy=*/true);
  EXPECT_EQ(request.problem_source, "s");
  EXPECT_EQ(request.candidate, "c");
  EXPECT_EQ(request.seed, 3u);
  EXPECT_EQ(request.backend, Backend::kCuda);  // never another in its place
  EXPECT_EQ(request.num_correct_trials, 5);
  EXPECT_EQ(request.timeout_s, 600);
}

}  // namespace
}  // namespace tritonforge::evaluate
