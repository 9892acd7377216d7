#include "net/http.h"

#include <gtest/gtest.h>

namespace tritonforge::net {
namespace {

TEST(Metrics, PrometheusText) {
  Metrics metrics("buffer",
                  {{"requests_total", "requests by path"}, {"queue", "requests that wait"}, {"unused", "none"}});
  metrics.add("requests_total{path=\"/x\"}");
  metrics.add("requests_total{path=\"/x\"}", 2);
  metrics.set("queue", 1.5);
  EXPECT_EQ(metrics.text(),
            "# HELP tritonforge_buffer_queue requests that wait\n"
            "# TYPE tritonforge_buffer_queue gauge\n"
            "tritonforge_buffer_queue 1.5\n"
            "# HELP tritonforge_buffer_requests_total requests by path\n"
            "# TYPE tritonforge_buffer_requests_total counter\n"
            "tritonforge_buffer_requests_total{path=\"/x\"} 3\n");
  EXPECT_EQ(metrics.get("requests_total{path=\"/x\"}"), 3);
  EXPECT_EQ(metrics.get("requests_total{path=\"/y\"}"), 0);
  EXPECT_THROW(metrics.add("request_total"), Error);  // not declared
}

}  // namespace
}  // namespace tritonforge::net
