#include "orchestrate/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "base/error.h"

namespace tritonforge::orchestrate {
namespace {

// A role in a few lines of Python: answers /health, dies on request.
constexpr const char* kServer = R"(
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(b'{"status": "green", "role": "x", "detail": "well"}')
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
)";

RoleSpec server_role(const std::string& name) {
  const int port = free_port();
  RoleSpec spec;
  spec.name = name;
  spec.argv = {TF_PYTHON, "-c", kServer, std::to_string(port)};
  spec.url = fmt::format("http://127.0.0.1:{}", port);
  spec.ready_timeout_s = 30;
  return spec;
}

std::vector<RoleSpec> one(RoleSpec spec) {
  std::vector<RoleSpec> specs;
  specs.push_back(std::move(spec));
  return specs;
}

TEST(Supervisor, StartsAgainWhatDiesAndBringsItUpToDateFirst) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  std::atomic<int> ready{0}, restarted{0};
  RoleSpec spec = server_role("engine-0");
  spec.on_ready = [&](bool again) {
    ++ready;
    restarted += again;
  };
  supervisor.start(one(std::move(spec)));
  EXPECT_EQ(ready, 1);
  const pid_t first = supervisor.status().at(0).pid;
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  const Deadline deadline = Deadline::after(30);
  while (supervisor.restarts("engine-0") == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready("engine-0", deadline);
  EXPECT_EQ(ready, 2);
  EXPECT_EQ(restarted, 1);
  EXPECT_NE(supervisor.status().at(0).pid, first);
  EXPECT_EQ(supervisor.status().at(0).state, RoleState::kGreen);
  supervisor.stop_all();
  EXPECT_TRUE(supervisor.status().empty());
}

TEST(Supervisor, ABusyRoleThatDiesIsStartedAgainToo) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  std::string& server = spec.argv[2];
  server.replace(server.find("green"), 5, "yellow");
  supervisor.start(one(std::move(spec)));
  const Deadline deadline = Deadline::after(30);
  while (supervisor.status().at(0).state != RoleState::kYellow && !deadline.expired()) std::this_thread::yield();
  ASSERT_EQ(::kill(supervisor.status().at(0).pid, SIGKILL), 0);
  while (supervisor.restarts("trainer") == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready("trainer", deadline);
  supervisor.check();
  supervisor.stop_all();
}

TEST(Supervisor, ARoleThatCannotStartSaysWhy) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  spec.argv = {TF_PYTHON, "-c", "import sys; sys.exit('the disk is on fire')"};
  try {
    supervisor.start(one(std::move(spec)));
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("trainer"), ::testing::HasSubstr("the disk is on fire")));
  }
  EXPECT_EQ(supervisor.status().at(0).state, RoleState::kRed);
  EXPECT_THROW(supervisor.check(), Error);
}

TEST(Supervisor, StoppingDuringStartEndsTheWait) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("engine-0");
  spec.argv = {TF_PYTHON, "-c", "import signal; signal.pause()"};  // never healthy
  std::thread stopper([&] {
    while (supervisor.status().empty()) std::this_thread::yield();
    supervisor.stop_all();
  });
  EXPECT_THROW(supervisor.start(one(std::move(spec))), Error);
  stopper.join();
}

}  // namespace
}  // namespace tritonforge::orchestrate
