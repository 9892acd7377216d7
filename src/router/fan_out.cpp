#include <algorithm>
#include <mutex>

#include "router/proxy.h"

namespace tritonforge::router {
namespace {

// An Origin, too: this server has judged it (net/foreign_page.h), and to a worker every page is a foreign one.
bool is_of_one_hop(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "host",  "connection", "content-length", "transfer-encoding", "keep-alive",
      "te",    "trailer",    "upgrade",        "proxy-connection",  "expect",
      "origin"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

Proxy::Proxy(const Registry& registry, Policy& policy, Admission& admission, net::AsyncClient& client,
             net::Metrics& metrics, ProxyOptions options)
    : registry_(registry),
      policy_(policy),
      admission_(admission),
      client_(client),
      metrics_(metrics),
      options_(std::move(options)) {}

net::AsyncRequest Proxy::outgoing(net::Request& request, ClientKey key) const {
  net::AsyncRequest out;
  out.method = request.method;
  out.headers = std::move(request.headers);
  std::erase_if(out.headers, [&](const auto& header) {
    return is_of_one_hop(header.first) || (key == ClientKey::kKeep && header.first == "authorization");
  });
  if (!options_.worker_api_key.empty()) out.headers["authorization"] = "Bearer " + options_.worker_api_key;
  out.headers["x-request-id"] = request.id;
  if (!request.body.empty()) out.body = std::make_shared<const std::string>(std::move(request.body));
  out.connect_timeout_s = options_.connect_timeout_s;
  return out;
}

struct Proxy::FanOut {
  std::mutex mutex;
  size_t missing = 0;
  Json workers = Json::object();
  std::vector<std::string> failures;
  std::string what;
  net::ResponderPtr reply;

  void answer(const std::string& url, const Result<net::Response>& from_worker);
  void finish();
};

void Proxy::FanOut::answer(const std::string& url, const Result<net::Response>& from_worker) {
  Json value;
  std::string failure;
  if (!from_worker.ok()) {
    failure = from_worker.error().what();
    value = {{"error", {{"message", failure}, {"type", name_of(from_worker.error().kind())}}}};
  } else {
    value = parse_json_or_discard(from_worker->body);
    if (value.is_discarded()) value = from_worker->body;
    const bool denied = value.is_object() && value.contains("success") && value["success"] == false;
    if (from_worker->status / 100 != 2 || denied)
      failure = fmt::format("{}: {} {}", url, from_worker->status, from_worker->body.substr(0, 300));
  }
  const std::lock_guard lock(mutex);
  workers[url] = std::move(value);
  if (!failure.empty()) failures.push_back(failure);
  if (--missing == 0) finish();
}

void Proxy::FanOut::finish() {
  Json body = {{"success", failures.empty()}, {"workers", std::move(workers)}};
  if (failures.empty()) {
    reply->send(net::Response::json(body));
    return;
  }
  std::sort(failures.begin(), failures.end());
  const std::string message = fmt::format("{}: {} of {} workers failed: {}", what, failures.size(),
                                          body["workers"].size(), fmt::join(failures, "; "));
  body["message"] = message;
  body["error"] = {{"message", message}, {"type", name_of(ErrorKind::kUnavailable)}};
  reply->send(net::Response::json(body, 502));
}

void Proxy::fan_out(net::Request& request, net::ResponderPtr reply, ClientKey key) {
  const auto workers = registry_.all();
  if (workers.empty()) {
    reply->send(
        net::Response::error(Error(ErrorKind::kUnavailable, request.method + " " + request.path +
                                                                ": no worker is registered (POST /add_worker?url=)")));
    return;
  }
  const auto all = std::make_shared<FanOut>();
  all->missing = workers.size();
  all->what = request.method + " " + request.path;
  all->reply = std::move(reply);
  const net::AsyncRequest shared = outgoing(request, key);
  for (const auto& worker : workers) {
    net::AsyncRequest one = shared;
    one.url = worker->url() + request.target;
    one.timeout_s = std::min(options_.fan_out_timeout_s, std::max(0.001, request.deadline.remaining_s()));
    client_.send(std::move(one), net::whole_reply([all, worker](Result<net::Response> from_worker) {
                   if (!from_worker.ok() && from_worker.error().kind() != ErrorKind::kTimeout)
                     worker->failed(from_worker.error().what());
                   all->answer(worker->url(), from_worker);
                 }));
  }
}

}  // namespace tritonforge::router
