#include "router/health.h"

#include <latch>

#include "net/retry.h"

namespace tritonforge::router {

HealthChecker::HealthChecker(Registry& registry, net::AsyncClient& client, HealthOptions options)
    : registry_(registry), client_(client), options_(std::move(options)) {
  if (options_.interval_s > 0) thread_ = std::jthread([this](std::stop_token stop) { loop(stop); });
}

HealthChecker::~HealthChecker() = default;

void HealthChecker::loop(std::stop_token stop) {
  do {
    check_all(stop);
  } while (net::pause(options_.interval_s, stop));
}

std::shared_ptr<net::AsyncCall> HealthChecker::ask(const WorkerPtr& worker, std::function<void()> done) {
  net::AsyncRequest request;
  request.url = worker->url() + "/health";
  request.timeout_s = request.connect_timeout_s = options_.timeout_s;
  if (!options_.api_key.empty()) request.headers["authorization"] = "Bearer " + options_.api_key;
  auto status = std::make_shared<int>(0);
  const double silence_s = options_.silence_timeout_s;
  return client_.send(
      std::move(request),
      {[status](int code, const net::Headers&) { *status = code; }, [](std::string_view) { return true; },
       [worker, status, silence_s, done = std::move(done)](std::optional<Error> error, bool) {
         if (error) worker->unhealthy(error->what());
         else if (*status == 200) worker->healthy();
         else if (*status != 0) worker->unhealthy(fmt::format("GET {}/health: {}", worker->url(), *status));
         worker->end_if_silent(silence_s);
         done();
       }});
}

void HealthChecker::check(const WorkerPtr& worker) {
  ask(worker, [] {});
}

void HealthChecker::check_all(std::stop_token stop) {
  const auto workers = registry_.all();
  const auto answered = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(workers.size()));
  std::vector<std::shared_ptr<net::AsyncCall>> calls;
  for (const auto& worker : workers) calls.push_back(ask(worker, [answered] { answered->count_down(); }));
  const std::stop_callback cancel(stop, [&calls] {
    for (const auto& call : calls) call->cancel();
  });
  answered->wait();
}

}  // namespace tritonforge::router
