#include "orchestrate/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "base/filesystem.h"

namespace tritonforge::orchestrate {
namespace {

// A role in a few lines of Python: answers /health, dies on request.
constexpr const char* kServer = R"(
import http.server, json, os, sys
def own(text):
    return json.dumps({"instance": os.environ["TRITONFORGE_INSTANCE"], **json.loads(text)}).encode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(own(b'{"status": "green", "role": "x", "detail": "well"}'))
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

// A rank of a group: the first answers, each writes its arguments and waits.
constexpr const char* kRank = R"(
import http.server, os, signal, sys
rank = sys.argv[sys.argv.index("--rank") + 1]
with open(os.path.join(sys.argv[2], rank), "a") as file:
    file.write(f"{os.getpid()} {sys.argv[-1]} {os.environ['CUDA_VISIBLE_DEVICES']}\n")
if rank != "0":
    signal.pause()
)";

std::vector<std::vector<std::string>> starts_of(const fs::path& file) {
  std::vector<std::vector<std::string>> starts;
  std::istringstream lines(fs::exists(file) ? read_file(file) : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    starts.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return starts;
}

TEST(Supervisor, RanksOfAGroupAreStartedTogetherAndAgainTogether) {
  TemporaryFolder logs("supervisor"), told("ranks");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  spec.argv[2] = std::string(kRank) + kServer;
  spec.argv.push_back(told.path().string());
  spec.places = {{.gpus = {4}}, {.gpus = {6}}};
  spec.confined = true;
  supervisor.start(one(std::move(spec)));
  const Deadline deadline = Deadline::after(120);
  while (starts_of(told.path() / "1").empty() && !deadline.expired()) std::this_thread::yield();
  const auto first = starts_of(told.path() / "0"), second = starts_of(told.path() / "1");
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(first[0][1], second[0][1]);  // the rendezvous
  EXPECT_THAT(first[0][1], ::testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(first[0][2], "4");
  EXPECT_EQ(second[0][2], "6");
  EXPECT_THAT(supervisor.status().at(0).pids, ::testing::ElementsAre(std::stoi(first[0][0]), std::stoi(second[0][0])));
  // The death of the second, which answers nobody, is the end of the first.
  ASSERT_EQ(::kill(std::stoi(second[0][0]), SIGKILL), 0);
  while (supervisor.restarts("trainer") == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready("trainer", deadline);
  while (starts_of(told.path() / "1").size() < 2 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(starts_of(told.path() / "0").size(), 2u);
  EXPECT_EQ(starts_of(told.path() / "1").size(), 2u);
  EXPECT_NE(::kill(std::stoi(first[0][0]), 0), 0);
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
  const pid_t first = supervisor.status().at(0).pids.at(0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  const Deadline deadline = Deadline::after(120);
  while (supervisor.restarts("engine-0") == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready("engine-0", deadline);
  EXPECT_EQ(ready, 2);
  EXPECT_EQ(restarted, 1);
  EXPECT_NE(supervisor.status().at(0).pids.at(0), first);
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
  const Deadline deadline = Deadline::after(120);
  while (supervisor.status().at(0).state != RoleState::kYellow && !deadline.expired()) std::this_thread::yield();
  ASSERT_EQ(::kill(supervisor.status().at(0).pids.at(0), SIGKILL), 0);
  while (supervisor.restarts("trainer") == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready("trainer", deadline);
  supervisor.check();
  supervisor.stop_all();
}

TEST(Supervisor, WhatIsNoStateIsNone) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  std::string& server = spec.argv[2];
  server.replace(server.find("\"green\""), 7, "[1]");
  server.replace(server.find("\"well\""), 6, "2");
  supervisor.start(one(std::move(spec)));
  const Deadline deadline = Deadline::after(120);
  while (supervisor.status().at(0).state != RoleState::kYellow && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(supervisor.status().at(0).state, RoleState::kYellow);
  EXPECT_EQ(supervisor.status().at(0).detail, "");
  supervisor.check();
  supervisor.stop_all();
}

TEST(Supervisor, WhatIsNoInstanceIsOfAnotherProcess) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  std::string& server = spec.argv[2];
  server.insert(server.find("    def do_GET"), "    instances = ['7', '[1]']\n");
  server.insert(server.find("'{\"status"),
                "'{\"instance\": %s}' % self.instances.pop().encode() if self.instances else b");
  supervisor.start(one(std::move(spec)));  // once nobody else answers at its port
  EXPECT_EQ(supervisor.status().at(0).state, RoleState::kGreen);
  supervisor.stop_all();
}

void wait_for_restart(Supervisor& supervisor, const std::string& name) {
  const Deadline deadline = Deadline::after(120);
  while (supervisor.restarts(name) == 0 && !deadline.expired()) std::this_thread::yield();
  supervisor.wait_ready(name, deadline);
}

TEST(Supervisor, ARoleThatHangsIsStartedAgain) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path(), {.hung_after_s = 1});
  supervisor.start(one(server_role("engine-0")));
  const pid_t first = supervisor.status().at(0).pids.at(0);
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  wait_for_restart(supervisor, "engine-0");
  EXPECT_NE(supervisor.status().at(0).pids.at(0), first);
  supervisor.stop_all();
}

TEST(Supervisor, ARoleThatCallsItselfRedIsStartedAgainUnlessItsRedIsThatOfOthers) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  std::vector<RoleSpec> specs;
  for (const char* name : {"router", "trainer"}) {
    RoleSpec spec = server_role(name);
    // Green at first; red once the file is there; the next process removes it.
    const std::string flag = (logs.path() / name).string();
    std::string& server = spec.argv[2];
    server.replace(server.find("self.send_response(200); self.end_headers()"), 43,
                   "red = os.path.exists('" + flag + "'); self.send_response(503 if red else 200); self.end_headers()");
    server.replace(server.find("b'{\"status\": \"green\", \"role\": \"x\", \"detail\": \"well\"}'"), 53,
                   "b'{\"status\": \"red\", \"detail\": \"broken\"}' if red else b'{\"status\": \"green\"}'");
    server.insert(server.find("http.server.HTTPServer"),
                  "os.path.exists('" + flag + "') and os.remove('" + flag + "')\n");
    specs.push_back(std::move(spec));
  }
  specs[0].restart_when_red = false;
  supervisor.start(std::move(specs));
  for (const char* name : {"router", "trainer"}) write_file_atomic(logs.path() / name, "");
  wait_for_restart(supervisor, "trainer");
  EXPECT_EQ(supervisor.restarts("router"), 0);
  supervisor.stop_all();
}

TEST(Supervisor, AnotherProcessOnTheRolesPortIsNotTakenForIt) {
  SupervisorOptions options;
  options.start_timeout_s = 1;
  // Of another run, and one that knows nothing of instances.
  for (const char* answer : {R"(b'{"status": "green", "instance": "another run"}')", "b'{}'", "b'hello'"}) {
    TemporaryFolder logs("supervisor");
    Supervisor supervisor(logs.path(), options);
    RoleSpec spec = server_role("buffer");
    std::string& server = spec.argv[2];
    const size_t begin = server.find("own(b"), end = server.find('\n', begin) - 1;
    server.replace(begin, end - begin, answer);
    try {
      supervisor.start(one(std::move(spec)));
      FAIL() << answer << " was taken for it";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("/health within 1 s: "));  // the patience that it had, not its own 30 s
    }
  }
}

TEST(Supervisor, WhoNeedsOthersStopsBeforeThem) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  const fs::path order = logs.path() / "order";
  std::vector<RoleSpec> specs;
  for (const char* name : {"trainer", "buffer", "generator-0"}) {
    RoleSpec spec = server_role(name);
    std::string& server = spec.argv[2];
    // The sooner it stops the longer it has to do.
    server.insert(
        server.find("http.server.HTTPServer"),
        fmt::format("import signal, time\ndef end(*a):\n    time.sleep({} / 5); open('{}', 'a').write('{} '); "
                    "sys.exit(0)\nsignal.signal(signal.SIGTERM, end)\n",
                    specs.size(), order.string(), name));
    spec.stop_turn = RoleSpec::kLastTurn - static_cast<int>(specs.size());
    specs.push_back(std::move(spec));
  }
  supervisor.start(std::move(specs));
  EXPECT_EQ(supervisor.longest_grace_s(), 30);
  supervisor.stop_all();
  EXPECT_EQ(read_file(order), "generator-0 buffer trainer ");
  EXPECT_THROW(supervisor.start(one(server_role("engine-0"))), Error);
}

TEST(Supervisor, WhatIsKilledAtTheEndIsNotStartedAgain) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  supervisor.start(one(server_role("router")));
  supervisor.kill_all();
  const auto ended = [](const RoleStatus& role) { return role.detail == "stopped" || role.restarts > 0; };
  const Deadline deadline = Deadline::after(120);
  while (!ended(supervisor.status().at(0)) && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(supervisor.status().at(0).detail, "stopped");
  supervisor.stop_all();
}

// Starts processes on this machine, and calls `ending` as one of them is waited for.
class WatchedLauncher : public Launcher {
 public:
  explicit WatchedLauncher(std::function<void()> ending) : ending_(std::move(ending)) {}
  std::unique_ptr<Launched> start(const Job& job) override {
    struct Watched : Launched {
      Watched(std::vector<Member> members, std::function<void()> at_end)
          : Launched(std::move(members)), ending(std::move(at_end)) {}
      ~Watched() override { ending(); }
      std::function<void()> ending;
    };
    std::vector<Launched::Member> members;
    members.push_back({Place(), std::make_unique<ChildProcess>(ProcessOptions{.argv = job.argv, .env = job.env})});
    return std::make_unique<Watched>(std::move(members), ending_);
  }

 private:
  std::function<void()> ending_;
};

// A process that a driver holds ends when the driver lets go of it: until then the others are seen to and stopped.
TEST(Supervisor, WaitsForTheEndOfAProcessWithoutItsLock) {
  TemporaryFolder logs("supervisor");
  Supervisor* asked = nullptr;
  std::vector<bool> answered;
  std::vector<std::future<void>> late;  // of a supervisor that does not answer: they end with the wait
  Supervisor supervisor(logs.path(), {}, std::make_unique<WatchedLauncher>([&] {
                          auto status = std::async(std::launch::async, [&] { asked->status(); });
                          answered.push_back(status.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
                          late.push_back(std::move(status));
                        }));
  asked = &supervisor;
  supervisor.start(one(server_role("engine-0")));
  ASSERT_EQ(::kill(supervisor.status().at(0).pids.at(0), SIGKILL), 0);
  wait_for_restart(supervisor, "engine-0");
  EXPECT_THAT(answered, ::testing::ElementsAre(true));
  supervisor.stop_all();
  EXPECT_THAT(answered, ::testing::ElementsAre(true, true));
}

TEST(Supervisor, AStopThatTakesLongIsHastened) {
  TemporaryFolder logs("supervisor");
  Supervisor supervisor(logs.path());
  RoleSpec spec = server_role("trainer");
  std::string& server = spec.argv[2];
  server.insert(server.find("http.server.HTTPServer"),
                "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n");
  spec.grace_s = 3600;
  supervisor.start(one(std::move(spec)));
  std::thread stopper([&] { supervisor.stop_all(); });
  supervisor.kill_all();
  stopper.join();
  EXPECT_TRUE(supervisor.status().empty());
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
  // Never healthy, and deaf to the signal of a stop.
  spec.argv = {
      TF_PYTHON, "-c",
      "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"};
  spec.ready_timeout_s = 3600;  // longer than any test may take: only the stop ends the wait
  spec.grace_s = 3600;          // what it would have to save it has not made yet
  const fs::path log = logs.path() / "engine-0.log";
  std::thread stopper([&] {
    while (!fs::exists(log) || read_file(log) != "deaf\n") std::this_thread::yield();
    supervisor.stop_all();
  });
  EXPECT_THROW(supervisor.start(one(std::move(spec))), Error);
  stopper.join();
}

}  // namespace
}  // namespace tritonforge::orchestrate
