#include "dashboard/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/process.h"
#include "dashboard/page.h"
#include "dashboard/run_folder.h"
#include "unit/dashboard/fixture.h"

namespace tritonforge::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Served {
  explicit Served(bool filled = true) {
    if (filled) write_run(folder.path());
    run = std::make_unique<RunFolder>(folder.path());
    page = std::make_unique<DashboardServer>(*run, net::ServerOptions{});
    page->start();
  }
  Json get(const std::string& path) { return client.get_json(page->url() + path).value(); }
  TemporaryFolder folder{"dashboard-test"};
  std::unique_ptr<RunFolder> run;
  std::unique_ptr<DashboardServer> page;
  net::HttpClient client;
};

TEST(Dashboard, ApiOverAFinishedRun) {
  Served run;
  EXPECT_EQ(run.get("/api/status")["run"], "quickstart-seed1");
  EXPECT_EQ(run.get("/api/steps").size(), 260u);
  const Json trajectories = run.get("/api/trajectories?limit=2");
  ASSERT_EQ(trajectories.size(), 2u);
  EXPECT_EQ(trajectories[0]["id"], "s60-p3-0");  // newest first
  EXPECT_FALSE(trajectories[0]["turns"][0].contains("prompt_tokens"));
  EXPECT_EQ(trajectories[0]["turns"][0]["response_tokens_count"], 2);
  EXPECT_EQ(run.get("/api/result")["stages"].size(), 4u);
  EXPECT_EQ(run.client.get(run.page->url() + "/api/trajectories?limit=x").value().status, 400);
  EXPECT_EQ(run.client.get(run.page->url() + "/health").value().status, 200);
}

TEST(Dashboard, AnEmptyFolderIsARunThatHasNotBegun) {
  Served run(false);
  EXPECT_EQ(run.get("/api/status"), Json::object());
  EXPECT_EQ(run.get("/api/steps"), Json::array());
  EXPECT_TRUE(run.get("/api/result").is_null());
}

TEST(Dashboard, AMissingFolderIsNamed) {
  try {
    RunFolder missing("/no/such/run");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("/no/such/run"));
  }
}

TEST(Dashboard, EventsFollowTheFiles) {
  Served run(false);
  std::mutex mutex;
  std::condition_variable changed;
  std::string seen;
  bool done = false;
  auto listener = std::async(std::launch::async, [&] {
    return net::HttpClient().stream("GET", run.page->url() + "/api/events", "", [&](std::string_view bytes) {
      const std::lock_guard lock(mutex);
      seen += bytes;
      changed.notify_all();
      return !done;
    });
  });
  const auto expect = [&](const std::string& text) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return seen.find(text) != std::string::npos; }))
        << text;
  };
  expect("event: status\ndata: {}\n\n");
  append(run.folder.path() / "steps.jsonl", "{\"stage\":\"rl\",\"step\":1}\n{\"stage\":\"rl\",\"st");  // half-written
  expect("event: step\ndata: {\"stage\":\"rl\",\"step\":1}\n\n");
  EXPECT_EQ(run.get("/api/steps").size(), 1u);
  append(run.folder.path() / "steps.jsonl", "ep\":2}\n");
  expect("data: {\"stage\":\"rl\",\"step\":2}\n\n");
  write_file_atomic(run.folder.path() / "status.json", R"({"run":"r","stage":"sft"})");
  expect("data: {\"run\":\"r\",\"stage\":\"sft\"}\n\n");
  append(run.folder.path() / "trajectories.jsonl", "{\"id\":\"t1\",\"turns\":[]}\n");
  expect("event: trajectory\ndata: {\"id\":\"t1\"");
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  run.page->stop();  // ends the stream
  EXPECT_TRUE(listener.get().ok());
}

TEST(RunFolder, BrokenLinesAreSkippedAndARewrittenFileIsReadAnew) {
  TemporaryFolder folder("run-folder-test");
  RunFolder run(folder.path());
  const fs::path steps = folder.path() / "steps.jsonl";
  append(steps, "{\"step\":1}\nnot json\n\n[1]\n{\"step\":2}\n");
  EXPECT_EQ(run.poll().steps.size(), 2u);
  write_file_atomic(steps, "{\"step\":9}\n");
  const auto news = run.poll();
  ASSERT_EQ(news.steps.size(), 1u);
  EXPECT_EQ(news.steps[0]["step"], 9);
  EXPECT_TRUE(run.poll().steps.empty());
  append(folder.path() / "status.json", "{half");
  EXPECT_FALSE(run.poll().status);
  for (int i = 0; i < 300; ++i)
    append(folder.path() / "trajectories.jsonl", "{\"id\":\"" + std::to_string(i) + "\"}\n");
  run.poll();
  EXPECT_EQ(run.trajectories(1000).size(), RunFolder::kKeptTrajectories);
  EXPECT_EQ(run.trajectories(1)[0]["id"], "299");
}

TEST(Page, NothingInlineAndNothingFromElsewhere) {
  Served run;
  const auto page = run.client.get(run.page->url() + "/").value();
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_THAT(page.headers.at("content-security-policy"), Not(HasSubstr("unsafe")));
  for (const auto text : {web_index_html, web_app_js, web_style_css}) {
    EXPECT_EQ(text.find("https://"), std::string_view::npos);
    EXPECT_EQ(text.find("innerHTML"), std::string_view::npos);
    EXPECT_EQ(text.find("insertAdjacentHTML"), std::string_view::npos);
  }
}

TEST(Report, HostileTextStaysText) {
  TemporaryFolder folder("report-test");
  write_run(folder.path());
  const std::string html = report_html(folder.path());
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<script>document"), std::string::npos);
  EXPECT_THAT(html, HasSubstr("\\u003cimg src=x onerror="));
  EXPECT_THAT(html, HasSubstr("script-src 'sha256-"));
}

// The real thing where a browser is installed: the hostile candidate must not run, and its text must be seen.
TEST(Report, ABrowserShowsItAndRunsNothingOfIt) {
  if (!fs::exists("/usr/bin/chromium")) GTEST_SKIP() << "no chromium on this machine";
  TemporaryFolder folder("report-test");
  write_run(folder.path());
  append(folder.path() / "trajectories.jsonl", Json{{"id", kHostile},
                                                    {"problem_id", kHostile},
                                                    {"problem_source", kHostile},
                                                    {"turns", {make_turn(false, false, kHostile, 0)}}}
                                                       .dump() +
                                                   "\n");
  write_file_atomic(folder.path() / "report.html", report_html(folder.path()));
  const auto shown = run_command({"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-logging",
                                  "--log-level=3", "--user-data-dir=" + (folder.path() / "profile").string(),
                                  "--dump-dom", "file://" + (folder.path() / "report.html").string()},
                                 120);
  ASSERT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("<title>quickstart-seed1 – TritonForge</title>"));
  EXPECT_THAT(shown.output, Not(HasSubstr("<img")));
  EXPECT_THAT(shown.output, HasSubstr("&lt;img src=x"));
  EXPECT_THAT(shown.output, HasSubstr("SFT + RL"));
  EXPECT_THAT(shown.output, HasSubstr("class=\"series one\""));
}

}  // namespace
}  // namespace tritonforge::dashboard
