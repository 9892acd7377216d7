#include "dashboard/server.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>

#include "base/folder_watch.h"
#include "base/log.h"
#include "dashboard/compare.h"
#include "dashboard/page.h"
#include "tracking/figures.h"

namespace tritonforge::dashboard {
namespace {

constexpr int kHeartbeat_s = 15;  // between comments that keep proxies from closing an idle stream

std::string event(std::string_view name, const Json& data) {
  return fmt::format("event: {}\n{}", name, net::sse_event(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

net::Response page_part(std::string_view text, const std::string& type) {
  net::Response response{200, std::string(text), type, {}};
  response.headers = {{"content-security-policy", content_security_policy()},
                      {"x-content-type-options", "nosniff"},
                      {"referrer-policy", "no-referrer"},
                      {"cache-control", "no-cache"}};
  return response;
}

// With the time here: a page on another machine tells by it how old a status is.
net::Response api_reply(const Json& value) {
  net::Response response = net::Response::json(value);
  response.headers = {{"cache-control", "no-store"},
                      {"x-content-type-options", "nosniff"},
                      {"date", fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr)))}};
  return response;
}

// Name and help of every figure that a step may have, as Prometheus gets it (docs/metrics.md).
std::map<std::string, std::string> run_metrics() {
  std::map<std::string, std::string> help = {
      {"step", "the last step, by stage"},
      {"step_time_seconds", "when it ended, in Unix time, by stage"},
      {"role_up", "1 where the role is green, 0.5 where it starts or is under load, 0 where it is red"},
      {"role_restarts", "times that the role was started again"},
      {"going_on", "1 while the run goes on"},
      {"progress", "share of the stage that is done"}};
  const std::string prefix = tracking::prometheus_name("");
  for (const tracking::FigureName& name : tracking::figure_names()) {
    for (const std::string& key : {std::string(name.key), tracking::sft_key(name.key)})
      help[tracking::prometheus_name(key).substr(prefix.size())] = std::string(name.help);
  }
  return help;
}

std::string text_of(const net::Request& request, const char* key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

std::optional<int64_t> number_of(const net::Request& request, const char* key) {
  const std::string text = text_of(request, key);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kUsage, "{}: '{}' is not a number", key, text);
  return value;
}

size_t count_of(const net::Request& request, const char* key, size_t fallback) {
  const int64_t value = number_of(request, key).value_or(static_cast<int64_t>(fallback));
  if (value < 0) fail(ErrorKind::kUsage, "{} must be at least 0, not {}", key, value);
  return static_cast<size_t>(value);
}

TrajectoryQuery query_of(const net::Request& request) {
  TrajectoryQuery query;
  query.search = text_of(request, "search");
  query.problem = text_of(request, "problem");
  query.flag = text_of(request, "flag");
  query.outcome = optional_from_name<Outcome>(text_of(request, "outcome"), "outcome");
  query.first_step = number_of(request, "first_step");
  query.last_step = number_of(request, "last_step");
  query.turns = number_of(request, "turns");
  query.order = optional_from_name<TrajectoryOrder>(text_of(request, "order"), "order").value_or(query.order);
  query.offset = count_of(request, "offset", 0);
  query.limit = count_of(request, "limit", query.limit);
  return query;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

struct Listener {
  std::string run;
  net::ResponderPtr reply;
};

}  // namespace

struct DashboardServer::Impl {
  Impl(RunList& the_runs, net::ServerOptions options) : runs(the_runs), server(std::move(options)) {
    if (!runs.many()) open("");
    add_routes();
  }
  RunFolder& open(const std::string& name);
  void add_routes();
  void add_run_routes();
  void follow(const std::stop_token& stop);
  bool tell_news(const std::string& name, RunFolder& folder);  // true while there is more to read
  bool look();
  void send(const std::string& run, const std::string& text);
  void set_run_metrics(const RunFolder& folder);
  static Json targets(const RunFolder& folder);
  Json compare(const std::vector<std::string>& names);

  std::mutex mutex;              // runs and listeners
  std::atomic<int> requests{0};  // that wait for it: they come before the next slice of a long file
  [[nodiscard]] std::unique_lock<std::mutex> enter() {
    ++requests;
    std::unique_lock lock(mutex);
    if (--requests == 0) requests.notify_all();
    return lock;
  }
  RunList& runs;
  std::vector<Listener> listeners;
  net::Metrics metrics{"dashboard", {{"listeners", "pages that follow /api/events"}}};
  net::Metrics run{"run", run_metrics()};
  FolderWatch watch;
  net::HttpServer server;
  std::jthread watcher;
};

// From its first request on a run is followed: its files as they are now, then the rest of its trajectories and what
// comes, by the watcher.
RunFolder& DashboardServer::Impl::open(const std::string& name) {
  const auto followed = [this](const std::string& run) {
    return std::any_of(listeners.begin(), listeners.end(), [&](const Listener& one) { return one.run == run; });
  };
  bool fresh = false;
  RunFolder& run = runs.open(name, followed, [&](RunFolder& folder) {
    watch.add(folder.path());
    fresh = true;
    if (folder.poll().more) watch.wake();
  });
  if (fresh) {  // another may have been closed for it
    std::vector<fs::path> open;
    for (const auto& [ignored, folder] : runs.open_runs()) open.push_back(folder->path());
    watch.keep_only(open);
  }
  return run;
}

void DashboardServer::Impl::send(const std::string& run, const std::string& text) {
  std::erase_if(listeners,
                [&](const Listener& one) { return (run.empty() || one.run == run) && !one.reply->write(text); });
}

// What the run's folder says now: the last step of each stage.
void DashboardServer::Impl::set_run_metrics(const RunFolder& folder) {
  const Json& status = folder.status();
  for (const Json& role : status.value("roles", Json::array())) {
    const std::string label = fmt::format("{{role=\"{}\"}}", role.value("name", ""));
    const std::string state = role.value("state", "");
    run.set("role_up" + label, state == "green" ? 1 : state == "yellow" ? 0.5 : 0);
    run.set("role_restarts" + label, role.value("restarts", 0));
  }
  run.set("going_on", status.value("state", "") == "running" ? 1 : 0);
  const Json progress = status.value("progress", Json::object());
  if (const double total = progress.value("total", 0.0); total > 0)
    run.set("progress", progress.value("done", 0.0) / total);
  const std::string prefix = tracking::prometheus_name("");
  for (const auto& [name, stage] : folder.curves().stages()) {
    const tracking::Point point = tracking::point_of_step(stage.last);
    run.set(fmt::format("step{{stage=\"{}\"}}", name), static_cast<double>(point.step));
    run.set(fmt::format("step_time_seconds{{stage=\"{}\"}}", name), point.time);
    for (const auto& [key, value] : point.values) run.set(tracking::prometheus_name(key).substr(prefix.size()), value);
  }
}

// The form of Prometheus' http_sd_configs: every role of the run, and this dashboard.
Json DashboardServer::Impl::targets(const RunFolder& folder) {
  Json groups = Json::array();
  const std::string name = folder.status().value("run", "");
  for (const Json& role : folder.status().value("roles", Json::array())) {
    const std::string url = role.value("url", "");
    if (url.find("://") == std::string::npos) continue;
    groups.push_back({{"targets", {url.substr(url.find("://") + 3)}},
                      {"labels", {{"role", role.value("name", "")}, {"run", name}}}});
  }
  return groups;
}

Json DashboardServer::Impl::compare(const std::vector<std::string>& names) {
  constexpr size_t kMostCompared = RunList::kKept;
  if (names.empty() || names.size() > kMostCompared)
    fail(ErrorKind::kUsage, "runs: name 1 to {} of them, not {}", kMostCompared, names.size());
  std::vector<const RunFolder*> folders;
  for (const std::string& name : names) folders.push_back(&open(name));
  Json comparison = compare_runs(folders, names);
  for (const RunFolder* folder : folders)
    comparison["curves"].push_back(folder->curves().to_json(RunFolder::kMostPoints));
  return comparison;
}

bool DashboardServer::Impl::tell_news(const std::string& name, RunFolder& folder) {
  const auto news = folder.poll();
  if (news.status) send(name, event("status", folder.status()));
  if (news.result) send(name, event("result", folder.result()));
  for (const auto& step : news.steps) send(name, event("step", step));
  if (news.trajectories) send(name, event("trajectories", {{"total", folder.trajectories().size()}}));
  return news.more;
}

// True while there is more to read.
bool DashboardServer::Impl::look() {
  const std::lock_guard lock(mutex);
  std::erase_if(listeners, [](const Listener& one) { return !one.reply->connected(); });  // of quiet runs, too
  bool more = false;
  for (const auto& [name, folder] : runs.open_runs()) {
    try {
      more |= tell_news(name, *folder);
    } catch (const std::exception& error) {
      // A file that went between seeing and reading it, or that nobody may read: the next look tells.
      log::warn("dashboard: {}", error.what());
    }
  }
  return more;
}

void DashboardServer::Impl::follow(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { watch.wake(); });
  bool more = false;
  auto told = Clock::now();
  while (!stop.stop_requested()) {
    watch.wait(more ? 0 : kHeartbeat_s * 1000);
    for (int waiting = requests; waiting > 0; waiting = requests) requests.wait(waiting);
    more = look();
    if (seconds_since(told) < kHeartbeat_s) continue;
    told = Clock::now();
    const std::lock_guard lock(mutex);
    send("", ": still here\n\n");  // whose run says nothing while others do is told so, too
  }
}

void DashboardServer::Impl::add_run_routes() {
  const auto api = [this](const std::string& path, std::function<Json(RunFolder&, const net::Request&)> value) {
    server.route("GET", path, [this, value](const net::Request& request) {
      const auto lock = enter();
      return api_reply(value(open(text_of(request, "run")), request));
    });
  };
  using Request = net::Request;
  api("/api/status", [](RunFolder& run, const Request&) { return run.status(); });
  api("/api/result", [](RunFolder& run, const Request&) { return run.result(); });
  api("/api/curves", [](RunFolder& run, const Request& request) {
    return run.curves().to_json(std::clamp<size_t>(count_of(request, "points", RunFolder::kMostPoints), 2, 100000));
  });
  api("/api/trajectories",
      [](RunFolder& run, const Request& request) { return run.trajectories().query(query_of(request)); });
  api("/api/trajectory",
      [](RunFolder& run, const Request& request) { return run.trajectories().at(count_of(request, "index", 0)); });
  api("/api/problems", [](RunFolder& run, const Request& request) {
    return run.trajectories().problems(text_of(request, "search"), count_of(request, "offset", 0),
                                       count_of(request, "limit", 50));
  });
  api("/api/problem", [](RunFolder& run, const Request& request) {
    const std::string id = text_of(request, "id");
    Json problem = run.problem(id);
    if (problem.is_null()) fail(ErrorKind::kNotFound, "no problem '{}' in problems.jsonl", id);
    return problem;
  });
  api("/api/flags", [](RunFolder& run, const Request&) { return run.trajectories().flags(); });
  api("/api/about", [](RunFolder& run, const Request&) { return run.about(); });
  api("/api/log", [](RunFolder& run, const Request& request) { return run.log_tail(text_of(request, "role")); });
  api("/api/targets", [](RunFolder& run, const Request&) { return targets(run); });
}

void DashboardServer::Impl::add_routes() {
  const auto part = [this](const std::string& path, std::string_view text, const std::string& type) {
    server.route("GET", path, [text, type](const net::Request&) { return page_part(text, type); });
  };
  part("/", web_index_html, "text/html; charset=utf-8");
  part("/style.css", web_style_css, "text/css; charset=utf-8");
  part("/app.js", page_script(), "text/javascript; charset=utf-8");
  add_run_routes();
  server.route("GET", "/api/figures", [](const net::Request&) { return api_reply(figure_help()); });
  server.route("GET", "/api/runs", [this](const net::Request&) {
    const auto lock = enter();
    return api_reply({{"many", runs.many()}, {"runs", runs.index()}});
  });
  server.route("GET", "/api/compare", [this](const net::Request& request) {
    const auto lock = enter();
    return api_reply(compare(split(text_of(request, "runs"))));
  });
  server.route("GET", "/health", [this](const net::Request&) {
    return net::health_reply(net::Colour::kGreen, "dashboard", runs.path().string());
  });
  server.route("GET", "/metrics", [this](const net::Request&) {
    const auto lock = enter();
    metrics.set("listeners", static_cast<double>(listeners.size()));
    net::Response reply = metrics.reply();
    if (runs.many()) return reply;
    set_run_metrics(open(""));
    reply.body += run.text();
    return reply;
  });
  server.route_async("GET", "/api/events", [this](const net::Request& request, net::ResponderPtr reply) {
    const auto lock = enter();
    const std::string name = text_of(request, "run").empty() ? runs.only() : text_of(request, "run");
    const RunFolder& folder = open(name);
    const Json curves = folder.curves().to_json(RunFolder::kMostPoints);
    reply->begin_stream(200, "text/event-stream", {{"cache-control", "no-store"}});
    // What there is comes in the stream too: an answer of its own could arrive behind the step that it lacks.
    reply->write(event("status", folder.status()) + event("result", folder.result()) + event("curves", curves));
    listeners.push_back({name, std::move(reply)});
  });
}

DashboardServer::DashboardServer(RunList& runs, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(runs, std::move(options))) {}
DashboardServer::~DashboardServer() { stop(); }
std::string DashboardServer::url() const { return impl_->server.url(); }

void DashboardServer::start() {
  impl_->look();
  impl_->server.start();
  impl_->watcher = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->follow(stop); });
}

void DashboardServer::stop(double grace_s) {
  impl_->watcher = {};
  {
    const auto lock = impl_->enter();
    for (const Listener& listener : impl_->listeners) listener.reply->end_stream();
    impl_->listeners.clear();
  }
  impl_->server.stop(grace_s);
}

}  // namespace tritonforge::dashboard
