#include "dashboard/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/process.h"
#include "dashboard/page.h"
#include "dashboard/run_list.h"
#include "unit/dashboard/fixture.h"
#include "unit/net/streamed.h"

namespace tritonforge::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Served {
  explicit Served(bool filled = true) {
    if (filled) write_run(folder.path());
    run = std::make_unique<RunList>(folder.path(), /*many=*/false);
    page = std::make_unique<DashboardServer>(*run, net::ServerOptions{});
    page->start();
  }
  Json get(const std::string& path) { return client.get_json(page->url() + path).value(); }
  TemporaryFolder folder{"dashboard-test"};
  std::unique_ptr<RunList> run;
  std::unique_ptr<DashboardServer> page;
  net::HttpClient client;
};

bool nobody(const std::string&) { return false; }

TEST(Dashboard, ApiOverAFinishedRun) {
  Served run;
  EXPECT_EQ(run.get("/api/status")["run"], "quickstart-seed1");
  const Json curves = run.get("/api/curves");
  EXPECT_EQ(curves["sft"]["step"].size(), 200u);
  EXPECT_EQ(curves["rl"]["figures"]["reward_mean"].size(), 60u);
  EXPECT_EQ(run.get("/api/curves?points=10")["rl"]["step"].back(), 60);
  const Json list = run.get("/api/trajectories?limit=2");
  EXPECT_EQ(list["total"], 3);
  ASSERT_EQ(list["rows"].size(), 2u);
  EXPECT_EQ(list["rows"][0]["id"], "s60-p3-0");  // newest first
  const Json whole = run.get("/api/trajectory?index=2");
  EXPECT_EQ(whole["id"], "s60-p3-0");
  EXPECT_FALSE(whole["turns"][0].contains("prompt_tokens"));
  EXPECT_EQ(whole["turns"][0]["response_tokens_count"], 2);
  EXPECT_EQ(run.client.get(run.page->url() + "/api/trajectory?index=3").value().status, 404);
  EXPECT_EQ(run.get("/api/result")["stages"].size(), 4u);
  EXPECT_EQ(run.client.get(run.page->url() + "/api/trajectories?limit=x").value().status, 400);
  EXPECT_EQ(run.client.get(run.page->url() + "/health").value().status, 200);
}

TEST(Dashboard, AnEmptyFolderIsARunThatHasNotBegun) {
  Served run(false);
  EXPECT_EQ(run.get("/api/status"), Json::object());
  EXPECT_EQ(run.get("/api/curves"), Json::object());
  EXPECT_EQ(run.get("/api/trajectories")["total"], 0);
  EXPECT_EQ(run.get("/api/flags")["flags"], Json::array());
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
    return net::streamed({.url = run.page->url() + "/api/events"}, [&](std::string_view bytes) {
      const std::lock_guard lock(mutex);
      seen += bytes;
      changed.notify_all();
      return !done;
    });
  });
  const auto expect = [&](const std::string& text) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return seen.find(text) != std::string::npos; }))
        << text;
  };
  expect("event: status\ndata: {}\n\nevent: result\ndata: null\n\nevent: curves\ndata: {}\n\n");
  append(run.folder.path() / "steps.jsonl", "{\"stage\":\"rl\",\"step\":1}\n{\"stage\":\"rl\",\"st");  // half-written
  expect("event: step\ndata: {\"stage\":\"rl\",\"step\":1}\n\n");
  EXPECT_EQ(run.get("/api/curves")["rl"]["step"].size(), 1u);
  append(run.folder.path() / "steps.jsonl", "ep\":2}\n");
  expect("data: {\"stage\":\"rl\",\"step\":2}\n\n");
  write_file_atomic(run.folder.path() / "status.json", R"({"run":"r","stage":"sft"})");
  expect("data: {\"run\":\"r\",\"stage\":\"sft\"}\n\n");
  append(run.folder.path() / "trajectories.jsonl", "{\"id\":\"t1\",\"turns\":[]}\n");
  expect("event: trajectories\ndata: {\"total\":1}");
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  run.page->stop();  // ends the stream
  EXPECT_TRUE(listener.get().ok());
}

TEST(Dashboard, AClosedPageOfAQuietRunIsForgottenWhileAnotherRunGoesOn) {
  TemporaryFolder folder("dashboard-test");
  for (const char* name : {"quiet", "busy"}) {
    fs::create_directories(folder.path() / name);
    write_run(folder.path() / name);
  }
  RunList runs(folder.path(), /*many=*/true);
  DashboardServer page(runs, net::ServerOptions{});
  page.start();
  net::HttpClient client;
  const auto listeners = [&] {
    const std::string text = client.get(page.url() + "/metrics").value().body;
    const std::string name = "\ntritonforge_dashboard_listeners ";
    return std::stoi(text.substr(text.find(name) + name.size()));
  };
  const auto hang_up = [&](std::string_view) {
    EXPECT_EQ(listeners(), 1);
    return false;
  };
  EXPECT_TRUE(net::streamed({.url = page.url() + "/api/events?run=quiet"}, hang_up).ok());
  client.get_json(page.url() + "/api/status?run=busy").value();
  const Deadline deadline = Deadline::after(60);
  for (int step = 1; listeners() > 0 && !deadline.expired(); ++step)
    append(folder.path() / "busy/steps.jsonl", fmt::format("{{\"stage\":\"rl\",\"step\":{}}}\n", step));
  EXPECT_EQ(listeners(), 0);
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
  EXPECT_EQ(run.curves().stages().size(), 0u);  // these lines name no stage
  append(folder.path() / "status.json", "{half");
  EXPECT_FALSE(run.poll().status);
}

TEST(Curves, ARepeatedStepReplacesTheEarlierAndAMissingFigureIsNull) {
  Curves curves;
  curves.add({{"stage", "rl"}, {"step", 1}, {"loss", 3.0}});
  curves.add({{"stage", "rl"}, {"step", 2}, {"loss", 2.0}, {"kl", 0.5}, {"warning", "falls"}});
  curves.add({{"stage", "rl"}, {"step", 1}, {"loss", 4.0}});
  const Json rl = parse_json(curves.to_json(100).dump(), "curves")["rl"];
  EXPECT_EQ(rl["step"], Json({1, 2}));
  EXPECT_EQ(rl["figures"]["loss"], Json({4.0, 2.0}));
  EXPECT_EQ(rl["figures"]["kl"], Json({nullptr, 0.5}));
  EXPECT_EQ(rl["warnings"], Json::array({Json::array({2, "falls"})}));
}

TEST(Curves, SumsAreOfAllStepsAlsoOfThoseThatAreLeftOut) {
  Curves curves;
  for (int step = 1; step <= 100; ++step) curves.add({{"stage", "rl"}, {"step", step}, {"seconds", step}});
  curves.add({{"stage", "rl"}, {"step", 101}, {"loss", 0.5}});
  const Json rl = curves.to_json(10)["rl"];
  EXPECT_LT(rl["step"].size(), 20u);
  EXPECT_EQ(rl["sums"], Json({{"seconds", 5050.0}, {"loss", 0.5}}));
}

// A trajectory of one turn.
std::string line_of(const std::string& id, const std::string& problem, int step, bool correct, bool cheated = false) {
  Json turn = make_turn(true, correct, "", correct ? 1 : 0);
  turn["verdict"]["cheated"] = cheated;
  if (cheated) turn["verdict"]["flags"] = {{{"name", "monkeypatch"}, {"cheat", true}, {"evidence", "x"}}};
  return Json{{"id", id}, {"problem_id", problem}, {"step", step}, {"reward", 0.5}, {"turns", {turn}}}.dump() + "\n";
}

TEST(TrajectoryIndex, FindsFiltersAndAddsUpWhatIsThere) {
  TemporaryFolder folder("index-test");
  const fs::path file = folder.path() / "trajectories.jsonl";
  TrajectoryIndex index(file);
  EXPECT_FALSE(index.read());
  append(file, line_of("a", "relu", 1, false) + "not json\n" + line_of("b", "relu", 9, true) +
                   line_of("c", "sum", 9, true, true));
  append(file, line_of("d", "sum", 10, true).substr(0, 40));  // a line that is still being written waits
  while (index.read()) {}
  EXPECT_EQ(index.size(), 3u);
  EXPECT_EQ(index.skipped(), 1u);
  const auto ids = [&](const TrajectoryQuery& query) {
    std::string all;
    const Json found = index.query(query);
    for (const Json& row : found["rows"]) all += row["id"].get<std::string>();
    return all;
  };
  EXPECT_EQ(ids({}), "cba");
  EXPECT_EQ(ids({.order = TrajectoryOrder::kOldest}), "abc");
  EXPECT_EQ(ids({.search = "RELU"}), "ba");
  EXPECT_EQ(ids({.flag = "monkeypatch"}), "c");
  EXPECT_EQ(ids({.flag = "unheard of"}), "");
  EXPECT_EQ(ids({.outcome = Outcome::kCorrect}), "b");  // a cheat is not correct, whatever it says
  EXPECT_EQ(ids({.first_step = 2}), "cb");
  EXPECT_EQ(ids({.offset = 1, .limit = 1}), "b");
  EXPECT_EQ(index.at(1)["id"], "b");
  const Json problems = index.problems("", 0, 10);
  EXPECT_EQ(problems["rows"][0]["problem_id"], "sum");
  EXPECT_EQ(problems["rows"][0]["cheats"], 1);
  EXPECT_EQ(problems["rows"][1]["correct"], 1);
  EXPECT_EQ(problems["rows"][1]["samples"], 2);
  EXPECT_EQ(index.flags()["flags"][0]["newest"], 2);
}

TEST(RunList, ANameIsOneOfItsRunsAndNoPath) {
  TemporaryFolder folder("runs-test");
  for (const char* name : {"runs/a", "runs/b", "outside"}) {
    fs::create_directories(folder.path() / name);
    write_file_atomic(folder.path() / name / "status.json", Json{{"run", name}}.dump());
  }
  fs::create_directories(folder.path() / "runs/no-run");
  RunList runs(folder.path() / "runs/", /*many=*/true);
  EXPECT_EQ(runs.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(runs.index().size(), 2u);
  EXPECT_EQ(runs.open("a", nobody).path(), folder.path() / "runs/a");
  for (const char* name : {"", "../outside", "no-run", "/", "."}) EXPECT_THROW(runs.open(name, nobody), Error) << name;
}

TEST(Dashboard, WhatIsClosedIsNotWatched) {
  TemporaryFolder folder("dashboard-test");
  for (size_t i = 0; i < 2 * RunList::kMostOpen; ++i) {
    const fs::path run = folder.path() / fmt::format("r{}", i);
    fs::create_directories(run);
    write_file_atomic(run / "status.json", "{}");
  }
  RunList runs(folder.path(), /*many=*/true);
  DashboardServer page(runs, net::ServerOptions{});
  page.start();
  net::HttpClient client;
  for (const std::string& name : runs.names()) client.get_json(page.url() + "/api/status?run=" + name).value();
  size_t watched = 0;
  for (const auto& of_one : fs::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(of_one.path());
    for (std::string line; std::getline(lines, line);) watched += line.starts_with("inotify wd:");
  }
  EXPECT_EQ(watched, RunList::kMostOpen);
}

TEST(RunList, ARunThatSomebodyFollowsStaysOpen) {
  TemporaryFolder folder("runs-test");
  RunList runs(folder.path(), /*many=*/true);
  bool opened = false;
  const auto begin = [&](RunFolder&) { opened = true; };
  for (size_t i = 0; i < 2 * RunList::kMostOpen; ++i) {
    const std::string name = fmt::format("r{}", i);
    fs::create_directories(folder.path() / name);
    write_file_atomic(folder.path() / name / "status.json", "{}");
    runs.open(name, [](const std::string& one) { return one == "r0"; }, begin);
    EXPECT_TRUE(std::exchange(opened, false));
  }
  EXPECT_EQ(runs.open_runs().size(), RunList::kMostOpen);
  runs.open("r0", nobody, begin);
  EXPECT_FALSE(opened);
  runs.open("r1", nobody, begin);
  EXPECT_TRUE(opened);
}

TEST(RunList, ARunWhoseBeginningFailedBeginsAnew) {
  TemporaryFolder folder("runs-test");
  fs::create_directories(folder.path() / "a");
  write_file_atomic(folder.path() / "a/status.json", "{}");
  RunList runs(folder.path(), /*many=*/true);
  int begun = 0;
  const auto unwatched = [&](RunFolder&) {
    if (++begun == 1) fail(ErrorKind::kUnavailable, "cannot watch");
  };
  EXPECT_THROW(runs.open("a", nobody, unwatched), Error);
  EXPECT_TRUE(runs.open_runs().empty());
  for (int i = 0; i < 2; ++i) runs.open("a", nobody, unwatched);
  EXPECT_EQ(begun, 2);
}

TEST(Dashboard, ARunThatCannotBeReadStopsNoOther) {
  TemporaryFolder folder("runs-test");
  for (const char* name : {"broken", "whole"}) {
    fs::create_directories(folder.path() / name);
    write_file_atomic(folder.path() / name / "status.json", "{}");
  }
  RunList runs(folder.path(), /*many=*/true);
  DashboardServer page(runs, {});
  page.start();
  std::promise<void> begun, came;
  auto listener = std::async(std::launch::async, [&] {
    std::string seen;
    return net::streamed({.url = page.url() + "/api/events?run=whole"}, [&](std::string_view bytes) {
      if (seen.empty()) begun.set_value();
      seen += bytes;
      if (seen.find("event: step") == std::string::npos) return true;
      came.set_value();
      return false;
    });
  });
  ASSERT_EQ(begun.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  // The broken one is asked for last, so it is looked at first.
  EXPECT_EQ(net::HttpClient().get(page.url() + "/api/status?run=broken").value().status, 200);
  fs::create_directories(folder.path() / "no file");
  fs::remove(folder.path() / "broken/status.json");
  fs::rename(folder.path() / "no file", folder.path() / "broken/status.json");
  append(folder.path() / "whole/steps.jsonl", "{\"stage\":\"rl\",\"step\":1}\n");
  EXPECT_EQ(came.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  page.stop();
  listener.wait();
}

TEST(Dashboard, ARunThatCouldNotBeReadIsReadOnceItCan) {
  TemporaryFolder folder("runs-test");
  const fs::path status = folder.path() / "a/status.json";
  fs::create_directories(status);  // no file
  RunList runs(folder.path(), /*many=*/true);
  DashboardServer page(runs, {});
  page.start();
  net::HttpClient client;
  for (int i = 0; i < 2; ++i) EXPECT_NE(client.get(page.url() + "/api/status?run=a").value().status, 200);
  fs::remove(status);
  write_file_atomic(status, Json{{"state", "running"}}.dump());
  EXPECT_EQ(client.get_json(page.url() + "/api/status?run=a").value()["state"], "running");
}

TEST(Page, NothingInlineAndNothingFromElsewhere) {
  Served run;
  const auto page = run.client.get(run.page->url() + "/").value();
  EXPECT_THAT(page.headers.at("content-security-policy"), HasSubstr("default-src 'none'; script-src 'self'"));
  EXPECT_THAT(page.headers.at("content-security-policy"), Not(HasSubstr("unsafe")));
  for (const auto text : {web_index_html, page_script(), web_style_css}) {
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
  const auto shown = run_command(
      {"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-logging", "--log-level=3",
       "--user-data-dir=" + (folder.path() / "profile").string(), "--dump-dom",
       "file://" + (folder.path() / "report.html").string() + "#/trajectories?index=3"},
      120);
  ASSERT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr("<title>quickstart-seed1 – TritonForge</title>"));
  EXPECT_THAT(shown.output, Not(HasSubstr("<img")));
  EXPECT_THAT(shown.output, HasSubstr("&lt;img src=x"));
}

}  // namespace
}  // namespace tritonforge::dashboard
