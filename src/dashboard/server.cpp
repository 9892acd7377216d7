#include "dashboard/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "dashboard/page.h"
#include "tracking/figures.h"

namespace tritonforge::dashboard {
namespace {

constexpr int kHeartbeat_ms = 15000;  // comments that keep proxies from closing an idle stream

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

size_t limit_of(const net::Request& request) {
  const auto found = request.query.find("limit");
  if (found == request.query.end()) return 20;
  size_t limit = 0;
  const auto& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kUsage, "limit: '{}' is not a number", text);
  return std::min(limit, RunFolder::kKeptTrajectories);
}

}  // namespace

struct DashboardServer::Impl {
  Impl(RunFolder& the_folder, net::ServerOptions options) : folder(the_folder), server(std::move(options)) {
    inotify = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    wake = ::eventfd(0, EFD_CLOEXEC);
    constexpr uint32_t kEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE;
    if (inotify < 0 || wake < 0 || ::inotify_add_watch(inotify, folder.path().c_str(), kEvents) < 0)
      fail(ErrorKind::kUnavailable, "cannot watch {}: {}", folder.path().string(), std::strerror(errno));
    add_routes();
  }
  ~Impl() {
    ::close(inotify);
    ::close(wake);
  }
  void add_routes();
  void watch(std::stop_token stop);
  void look();
  void broadcast(const std::string& text);
  void set_run_metrics();
  Json targets() const;

  std::mutex mutex;  // folder and listeners
  RunFolder& folder;
  std::vector<net::ResponderPtr> listeners;
  net::Metrics metrics{"dashboard", {{"listeners", "pages that follow /api/events"}}};
  net::Metrics run{"run", run_metrics()};
  int inotify = -1, wake = -1;
  net::HttpServer server;
  std::jthread watcher;
};

void DashboardServer::Impl::broadcast(const std::string& text) {
  std::erase_if(listeners, [&](const auto& listener) { return !listener->write(text); });
}

// What the run's folder says now. Steps are in the order of their stages: the last one of each stage stays.
void DashboardServer::Impl::set_run_metrics() {
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
  std::map<std::string, const Json*> last;
  for (const Json& step : folder.steps()) last[step.value("stage", "")] = &step;
  for (const auto& [stage, step] : last) {
    const tracking::Point point = tracking::point_of_step(*step);
    run.set(fmt::format("step{{stage=\"{}\"}}", stage), static_cast<double>(point.step));
    run.set(fmt::format("step_time_seconds{{stage=\"{}\"}}", stage), point.time);
    for (const auto& [key, value] : point.values) run.set(tracking::prometheus_name(key).substr(prefix.size()), value);
  }
}

// The form of Prometheus' http_sd_configs: every role of the run, and this dashboard.
Json DashboardServer::Impl::targets() const {
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

void DashboardServer::Impl::look() {
  const std::lock_guard lock(mutex);
  const auto news = folder.poll();
  if (news.status) broadcast(event("status", folder.status()));
  if (news.result) broadcast(event("result", folder.result()));
  for (const auto& step : news.steps) broadcast(event("step", step));
  for (const auto& trajectory : news.trajectories) broadcast(event("trajectory", trajectory));
}

void DashboardServer::Impl::watch(std::stop_token stop) {
  const std::stop_callback ring(stop, [this] {
    const uint64_t one = 1;
    if (::write(wake, &one, sizeof one) != sizeof one) log::error("dashboard: cannot wake its watcher");
  });
  while (!stop.stop_requested()) {
    pollfd waiting[2] = {{inotify, POLLIN, 0}, {wake, POLLIN, 0}};
    const int ready = ::poll(waiting, 2, kHeartbeat_ms);
    char buffer[16384];
    while (::read(inotify, buffer, sizeof buffer) > 0) {}
    try {
      look();
    } catch (const Error& error) {
      log::warn("dashboard: {}", error.what());  // a file that went between seeing and reading it; the next look tells
    }
    if (ready == 0) {
      const std::lock_guard lock(mutex);
      broadcast(": still here\n\n");
    }
  }
}

void DashboardServer::Impl::add_routes() {
  server.route("GET", "/", [](const net::Request&) { return page_part(web_index_html, "text/html; charset=utf-8"); });
  server.route("GET", "/style.css",
               [](const net::Request&) { return page_part(web_style_css, "text/css; charset=utf-8"); });
  server.route("GET", "/app.js",
               [](const net::Request&) { return page_part(web_app_js, "text/javascript; charset=utf-8"); });
  const auto api = [this](const std::string& path, std::function<Json(const net::Request&)> value) {
    server.route("GET", path, [this, value](const net::Request& request) {
      const std::lock_guard lock(mutex);
      net::Response response = net::Response::json(value(request));
      response.headers = {{"cache-control", "no-store"}, {"x-content-type-options", "nosniff"}};
      return response;
    });
  };
  api("/api/status", [this](const net::Request&) { return folder.status(); });
  api("/api/steps", [this](const net::Request&) { return Json(folder.steps()); });
  api("/api/trajectories",
      [this](const net::Request& request) { return Json(folder.trajectories(limit_of(request))); });
  api("/api/targets", [this](const net::Request&) { return targets(); });
  api("/api/result", [this](const net::Request&) { return folder.result(); });
  server.route("GET", "/health", [this](const net::Request&) {
    return net::health_reply(net::Colour::kGreen, "dashboard", folder.path().string());
  });
  server.route("GET", "/metrics", [this](const net::Request&) {
    const std::lock_guard lock(mutex);
    metrics.set("listeners", static_cast<double>(listeners.size()));
    set_run_metrics();
    net::Response reply = metrics.reply();
    reply.body += run.text();
    return reply;
  });
  server.route_async("GET", "/api/events", [this](const net::Request&, net::ResponderPtr reply) {
    reply->begin_stream(200, "text/event-stream", {{"cache-control", "no-store"}});
    const std::lock_guard lock(mutex);
    reply->write(event("status", folder.status()));
    listeners.push_back(std::move(reply));
  });
}

DashboardServer::DashboardServer(RunFolder& folder, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(folder, std::move(options))) {}
DashboardServer::~DashboardServer() { stop(); }
std::string DashboardServer::url() const { return impl_->server.url(); }

void DashboardServer::start() {
  impl_->look();
  impl_->server.start();
  impl_->watcher = std::jthread([impl = impl_.get()](std::stop_token stop) { impl->watch(stop); });
}

void DashboardServer::stop(double grace_s) {
  impl_->watcher = {};
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& listener : impl_->listeners) listener->end_stream();
    impl_->listeners.clear();
  }
  impl_->server.stop(grace_s);
}

}  // namespace tritonforge::dashboard
