#include <fmt/format.h>

#include <deque>
#include <mutex>

#include "net/exchange.h"
#include "net/retry.h"
#include "net/wire.h"

namespace tritonforge::net {

struct HttpClient::Impl {
  explicit Impl(ClientOptions given) : options(std::move(given)), tls(client_tls(options.tls)) {}

  // An event loop without a thread, and the connections that live there: a call has one to itself.
  struct Place {
    asio::io_context io{1};
    std::shared_ptr<SocketPool> pool;
    Clock::time_point free_since{};
  };
  const ClientOptions options;
  const TlsContextPtr tls;
  std::mutex mutex;
  static constexpr double kMaxFree_s = 30;
  std::deque<std::unique_ptr<Place>> free;  // the last used last

  std::unique_ptr<Place> take_place() {
    {
      const std::lock_guard lock(mutex);
      if (!free.empty()) {
        auto place = std::move(free.back());
        free.pop_back();
        return place;
      }
    }
    auto place = std::make_unique<Place>();
    place->pool = std::make_shared<SocketPool>(tls);
    return place;
  }
  void give_back(std::unique_ptr<Place> place) {
    place->free_since = Clock::now();
    const std::lock_guard lock(mutex);
    free.push_back(std::move(place));
    while (seconds_since(free.front()->free_since) > kMaxFree_s) free.pop_front();
  }

  AsyncRequest prepare(const std::string& method, const std::string& url, std::string body,
                       const std::string& content_type, const ClientOptions& given) const {
    AsyncRequest request;
    request.method = method;
    request.url = url;
    request.headers = given.headers;
    if (!body.empty()) {
      request.headers.try_emplace("content-type", content_type);
      request.body = std::make_shared<const std::string>(std::move(body));
    }
    if (!given.api_key.empty()) request.headers["authorization"] = "Bearer " + given.api_key;
    request.timeout_s = given.timeout_s;
    request.longest_reply = given.longest_reply;
    request.connect_timeout_s = std::min(10.0, given.timeout_s);
    return request;
  }

  // On this thread.
  Result<Response> run(const AsyncRequest& request) {
    auto place = take_place();
    asio::io_context& io = place->io;
    std::optional<Result<Response>> outcome;
    bool ended = false;
    std::exception_ptr thrown;
    auto state = std::make_shared<ExchangeState>(io.get_executor());
    asio::co_spawn(io, exchange(std::move(state), place->pool, request, whole_reply([&](Result<Response> reply) {
                                  outcome = std::move(reply);
                                })),
                   [&](std::exception_ptr failed) {
                     thrown = failed;
                     ended = true;
                   });
    io.restart();
    while (!ended) io.run_one();  // an idle connection's alarm may be left
    give_back(std::move(place));
    if (thrown) std::rethrow_exception(thrown);
    return *std::move(outcome);
  }
};

HttpClient::HttpClient(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

Result<Response> HttpClient::request(const std::string& method, const std::string& url, std::string body,
                                     const std::string& content_type, const ClientOptions* options) {
  const ClientOptions& given = options ? *options : impl_->options;
  const AsyncRequest request = impl_->prepare(method, url, std::move(body), content_type, given);
  return impl_->run(request);
}

Result<Response> HttpClient::get(const std::string& url) { return request("GET", url, ""); }
Result<Response> HttpClient::post(const std::string& url, const Json& body) {
  return request("POST", url, body.dump());
}

namespace {
Result<Json> parse_reply(Result<Response> reply, const std::string& what) {
  if (!reply) return reply.error();
  if (reply->status / 100 != 2) return error_of(*reply, what);
  try {
    return parse_json(reply->body, what);
  } catch (const Error& error) {
    return Error(ErrorKind::kCorrupt, error.what());
  }
}
}  // namespace

Result<Json> HttpClient::post_json(const std::string& url, const Json& body) {
  return parse_reply(post(url, body), "POST " + url);
}
Result<Json> HttpClient::get_json(const std::string& url) { return parse_reply(get(url), "GET " + url); }

void wait_until_healthy(const std::string& url, Deadline deadline) {
  HttpClient client;
  const auto ask = [&]() -> Result<bool> {
    ClientOptions options;
    options.timeout_s = std::clamp(deadline.remaining_s(), 0.05, 5.0);
    auto reply = client.request("GET", url, "", "", &options);
    if (!reply) return reply.error();
    if (reply->status != 200) return error_of(*reply, "GET " + url);
    return true;
  };
  const auto again = [](const Error& error) {
    return error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kUnsupported;
  };
  retry<bool>(url + " to be healthy", deadline, ask, {.again = again}).value();
}

}  // namespace tritonforge::net
