#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <unordered_set>

#include "base/job_queue.h"
#include "base/log.h"
#include "net/connection.h"
#include "net/listen.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

asio::ip::address address_of(const std::string& host) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) fail(ErrorKind::kUsage, "'{}' is not an address to listen on (use an IP address, 0.0.0.0 for all)", host);
  return address;
}

Response run_handler(const Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const Error& error) {
    return Response::error(error);
  } catch (const Json::exception& error) {
    return Response::error(Error(ErrorKind::kUsage, request.method + " " + request.path + ": " + error.what()));
  } catch (const std::exception& error) {
    log::error("{} {} (request {}): {}", request.method, request.path, request.id, error.what());
    return Response::error(error);
  }
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(ServerOptions given)
      : options(std::move(given)), loops(static_cast<size_t>(std::max(1, options.io_threads))) {
    for (auto& loop : loops) loop = std::make_shared<Loop>();
  }

  void dispatch(const Route& route, Request request, std::shared_ptr<ReplyHandle> reply);
  void run_async(const Route& route, Request& request, const std::shared_ptr<ReplyHandle>& reply);
  void adopt(tcp::socket socket);

  ServerOptions options;
  RouteTable routes;
  std::vector<std::shared_ptr<Loop>> loops;  // they take turns with the connections; the first one accepts
  size_t turn = 0;
  std::optional<tcp::acceptor> acceptor;
  ConnectionHost host;
  int port = 0;
  std::unique_ptr<JobQueue> workers;
  std::mutex mutex, stopping;
  std::condition_variable changed;
  std::unordered_set<Connection*> connections;
  bool started = false, stopped = false;
};

void HttpServer::Impl::dispatch(const Route& route, Request request, std::shared_ptr<ReplyHandle> reply) {
  if (route.async) {
    run_async(route, request, reply);
    return;
  }
  std::stop_source left;
  request.left = left.get_token();
  reply->on_disconnect([left]() mutable { left.request_stop(); });
  auto shared = std::make_shared<Request>(std::move(request));
  const bool accepted = workers->submit([this, &route, shared, reply] {
    // A client that closed its sending half may still read; only stop() throws away what is queued.
    if (*host.draining && !reply->connected()) return;
    if (shared->deadline.expired()) {
      reply->send(Response::error(
          Error(ErrorKind::kTimeout,
                shared->method + " " + shared->path + ": the deadline passed while the request waited for a worker")));
      return;
    }
    reply->send(run_handler(route.blocking, *shared));
  });
  if (!accepted) {
    reply->send(Response::error(
        Error(ErrorKind::kUnavailable, fmt::format("the server is busy: {} requests are waiting", options.max_queue))));
  }
}

void HttpServer::Impl::run_async(const Route& route, Request& request, const std::shared_ptr<ReplyHandle>& reply) {
  const auto run = [&](const Request&) -> Response {
    route.async(request, reply);
    return {.status = 0};
  };
  Response response = run_handler(run, request);
  if (response.status != 0) reply->send(std::move(response));
}

void HttpServer::Impl::adopt(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto connection = std::make_shared<Connection>(std::move(socket), host, [this](Connection* gone) {
    const std::lock_guard lock(mutex);
    connections.erase(gone);
    changed.notify_all();
  });
  {
    const std::lock_guard lock(mutex);
    connections.insert(connection.get());
  }
  connection->start();
}

HttpServer::HttpServer(ServerOptions options) {
  const auto address = address_of(options.host);
  if (options.api_key.empty() && !is_loopback(options.host)) {
    fail(ErrorKind::kUsage,
         "listening on {} needs an API key (--api-key-file, or TRITONFORGE_API_KEY): only loopback addresses are "
         "served without one",
         options.host);
  }
  impl_ = std::make_unique<Impl>(std::move(options));
  const int fd = listen_on(address, impl_->options.host, impl_->options.port);
  impl_->acceptor.emplace(impl_->loops.front()->io, address.is_v4() ? tcp::v4() : tcp::v6(), fd);
  impl_->port = impl_->acceptor->local_endpoint().port();
  ConnectionHost& host = impl_->host;
  host.max_body = impl_->options.max_body;
  host.api_key = impl_->options.api_key;
  if (!impl_->options.tls.cert.empty())
    host.tls = std::make_shared<const TlsContext>(impl_->options.tls, TlsContext::Side::kServer);
  host.header_timeout_s = impl_->options.header_timeout_s;
  host.idle_timeout_s = impl_->options.idle_timeout_s;
  host.stall_timeout_s = impl_->options.stall_timeout_s;
  host.draining = std::make_shared<std::atomic<bool>>(false);
  host.routes = &impl_->routes;
  host.dispatch = [impl = impl_.get()](const Route& route, Request request, std::shared_ptr<ReplyHandle> reply) {
    impl->dispatch(route, std::move(request), std::move(reply));
  };
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::route(const std::string& method, const std::string& pattern, Handler handler, Effect effect) {
  TF_CHECK(!impl_->started, "route {} added after start()", pattern);
  impl_->routes.add({method, pattern, std::move(handler), nullptr, {}, effect});
}

void HttpServer::route_async(const std::string& method, const std::string& pattern, AsyncHandler handler,
                             Effect effect) {
  TF_CHECK(!impl_->started, "route {} added after start()", pattern);
  impl_->routes.add({method, pattern, nullptr, std::move(handler), {}, effect});
}

void HttpServer::start() {
  TF_CHECK(!impl_->started, "start() called twice");
  // What this server has, as it has it: the documents are compared with it (cli/api.h).
  route_async("GET", "/routes", [impl = impl_.get()](const Request&, const ResponderPtr& reply) {
    reply->send(Response::json(impl->routes.listed()));
  });
  impl_->started = true;
  impl_->workers = std::make_unique<JobQueue>(std::max(1, impl_->options.worker_threads), impl_->options.max_queue);
  asio::co_spawn(
      impl_->acceptor->get_executor(),
      [impl = impl_.get()] {
        return accept_each(
            *impl->acceptor, [impl] { return impl->loops[impl->turn++ % impl->loops.size()]->io.get_executor(); },
            [impl](tcp::socket socket) { impl->adopt(std::move(socket)); });
      },
      asio::detached);
  for (const auto& loop : impl_->loops) loop->start();
}

int HttpServer::port() const { return impl_->port; }

std::string HttpServer::url() const {
  std::string host = impl_->options.host;
  if (host == "0.0.0.0" || host == "localhost") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}://{}:{}", impl_->host.tls ? "https" : "http", host, impl_->port);
}

void HttpServer::stop(double grace_s) {
  Impl& impl = *impl_;
  const std::lock_guard only_one(impl.stopping);
  if (std::exchange(impl.stopped, true)) return;
  *impl.host.draining = true;
  if (!impl.started) return;
  std::promise<void> closed;  // from then on nothing is accepted, and the port is free
  asio::post(impl.acceptor->get_executor(), [&] {
    error_code ignored;
    impl.acceptor->close(ignored);
    closed.set_value();
  });
  closed.get_future().wait();
  const auto tell_all = [&impl](void (Connection::*action)()) {
    std::vector<std::shared_ptr<Connection>> live;
    {
      const std::lock_guard lock(impl.mutex);
      for (Connection* connection : impl.connections) {
        if (auto shared = connection->weak_from_this().lock()) live.push_back(std::move(shared));
      }
    }
    for (const auto& connection : live) (connection.get()->*action)();
  };
  const auto none_left = [&impl] { return impl.connections.empty(); };
  tell_all(&Connection::drain);
  {
    std::unique_lock lock(impl.mutex);
    impl.changed.wait_until(lock, Deadline::after(grace_s).at(), none_left);
  }
  tell_all(&Connection::abort);
  impl.workers->stop();
  {
    std::unique_lock lock(impl.mutex);
    impl.changed.wait(lock, none_left);
  }
  for (const auto& loop : impl.loops) loop->finish();
}

}  // namespace tritonforge::net
