// Name servers that do not answer, by a getaddrinfo of the test's own.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "net/address.h"
#include "net/async_client.h"
#include "net/http.h"

namespace tritonforge::net {
namespace {

// "late.test" is this machine once it is let through.
struct NameServer {
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = false;
  std::atomic<int> asked{0};
  void answer(bool now) {
    const std::lock_guard lock(mutex);
    answers = now;
    changed.notify_all();
  }
  void wait() {
    ++asked;
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return answers; });
  }
};
NameServer& name_server() {
  static NameServer* const one = new NameServer;  // threads that were left behind may outlive main()
  return *one;
}

class Lookup : public testing::Test {
 protected:
  using Outcome = std::future<std::optional<Error>>;
  void SetUp() override {
    name_server().answer(false);
    server_.route("GET", "/x", [](const Request&) { return Response::text("here"); });
    server_.start();
  }
  void TearDown() override { name_server().answer(true); }
  std::string url(const std::string& host) const { return fmt::format("http://{}:{}/x", host, server_.port()); }
  static Outcome get(AsyncClient& client, const std::string& url, double connect_timeout_s) {
    const auto over = std::make_shared<std::promise<std::optional<Error>>>();
    client.send({.url = url, .connect_timeout_s = connect_timeout_s},
                {.on_head = [](int, const Headers&) {},
                 .on_body = [](std::string_view) { return true; },
                 .on_done = [over](std::optional<Error> error, bool) { over->set_value(std::move(error)); }});
    return over->get_future();
  }
  static void expect_over(const Outcome& outcome) {
    ASSERT_EQ(outcome.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  }
  HttpServer server_{ServerOptions{}};
};

TEST_F(Lookup, ThatIsStuckEndsWithTheRequestsTimeAndHoldsUpNobodyElse) {
  const int before = name_server().asked;
  {
    AsyncClient client;
    std::vector<Outcome> stuck;
    for (int i = 0; i < 3; ++i) stuck.push_back(get(client, url("late.test"), 0.1));
    Outcome other = get(client, url("localhost"), 10);
    expect_over(other);
    EXPECT_FALSE(other.get());
    for (Outcome& one : stuck) {
      expect_over(one);
      EXPECT_THAT(one.get().value().what(), testing::HasSubstr("late.test"));
    }
  }
  HttpClient blocking({.timeout_s = 0.1});
  EXPECT_FALSE(blocking.get(url("late.test")).ok());
  EXPECT_FALSE(blocking.get(url("late.test")).ok());
  EXPECT_EQ(name_server().asked - before, 2) << "of each client one thread";
}

TEST_F(Lookup, WhoWaitsTogetherIsAnsweredTogether) {
  const int before = name_server().asked;
  AsyncClient client;
  std::vector<Outcome> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(get(client, url("late.test"), 30));
  Outcome other = get(client, url("localhost"), 10);  // behind them on the client's thread
  expect_over(other);
  name_server().answer(true);
  for (Outcome& one : waiting) {
    expect_over(one);
    EXPECT_FALSE(one.get());
  }
  EXPECT_EQ(name_server().asked - before, 1);
}

TEST_F(Lookup, ThatIsStuckEndsForAThreadThatWaitsForIt) {
  const auto refusal = [](const std::string& host, double seconds, auto ask) -> std::optional<Error> {
    try {
      ask(host, Deadline::after(seconds));
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    }
  };
  for (const auto ask : {ipv4_of, own_address_towards}) {
    const auto stuck = refusal("late.test", 0.1, ask), none = refusal("none.invalid", 30, ask);
    ASSERT_TRUE(stuck && none);
    EXPECT_EQ(stuck->kind(), ErrorKind::kTimeout);
    EXPECT_THAT(stuck->what(), testing::HasSubstr("looking up late.test"));
    EXPECT_EQ(none->kind(), ErrorKind::kUsage);
    EXPECT_THAT(none->what(), testing::HasSubstr("'none.invalid' is no address and no name"));
  }
  name_server().answer(true);
  EXPECT_EQ(ipv4_of("late.test"), "127.0.0.1");
  EXPECT_EQ(own_address_towards("late.test"), "127.0.0.1");
  EXPECT_EQ(own_address_towards("127.0.0.9"), "127.0.0.1");
}

// In a child with a limit of its own, which root has none of.
TEST_F(Lookup, WithoutAThreadForItEndsTheRequestAndNotThoseThatFollow) {
  const std::string here = url("localhost");
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(77);
      rlimit threads{};
      ::getrlimit(RLIMIT_NPROC, &threads);
      const rlimit none{0, threads.rlim_max};
      if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(77);
      HttpClient client;
      const auto without = client.get(here);
      if (without.ok() || without.error().kind() != ErrorKind::kUnavailable) ::_exit(1);
      ::setrlimit(RLIMIT_NPROC, &threads);
      ::_exit(client.get(here).ok() ? 0 : 2);
    } catch (...) {
      ::_exit(3);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no limit of threads here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Lookup, OfANameThatIsNoneSaysSo) {
  AsyncClient client;
  Outcome none = get(client, url("none.invalid"), 10);
  expect_over(none);
  const Error error = none.get().value();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), testing::HasSubstr("looking up none.invalid"));
}

}  // namespace
}  // namespace tritonforge::net

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host;
  if (name == "none.invalid") return EAI_NONAME;
  if (name != "late.test") return real(host, service, hints, found);
  tritonforge::net::name_server().wait();
  return real("127.0.0.1", service, hints, found);
}
