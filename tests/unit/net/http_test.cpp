#include "net/http.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace tritonforge::net {
namespace {

TEST(ResponseError, HasTheKindsStatusAndTheFieldsBeside) {
  const Response conflict = Response::error(Error(ErrorKind::kConflict, "step 7 is out of turn"),
                                            {{"expected_step", 2}});
  EXPECT_EQ(conflict.status, 409);
  EXPECT_EQ(Json::parse(conflict.body),
            (Json{{"error", {{"message", "step 7 is out of turn"}, {"type", "conflict"}}}, {"expected_step", 2}}));
  EXPECT_EQ(conflict.headers.count("retry-after"), 0u);
  const Response busy = Response::error(Error(ErrorKind::kBusy, "the queue is full"));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.at("retry-after"), "1");
  const Response other = Response::error(std::out_of_range("no such element"));
  EXPECT_EQ(other.status, 500);
  EXPECT_EQ(Json::parse(other.body)["error"]["type"], "internal");
}

TEST(HealthReply, HasOneShape) {
  const Response green = health_reply(Colour::kGreen, "router", "3 workers");
  EXPECT_EQ(green.status, 200);
  EXPECT_EQ(Json::parse(green.body), (Json{{"status", "green"}, {"role", "router"}, {"detail", "3 workers"}}));
  const Response yellow = health_reply(Colour::kYellow, "evaluator", "", {{"busy", 1}});
  EXPECT_EQ(yellow.status, 200);
  EXPECT_EQ(Json::parse(yellow.body)["report"]["busy"], 1);
  EXPECT_EQ(health_reply(Colour::kRed, "engine", "").status, 503);
}

}  // namespace
}  // namespace tritonforge::net
