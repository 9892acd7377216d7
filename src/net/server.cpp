#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <thread>
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

// As the kernel has it; its header and the C library's cannot be had together.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// This thread asks for short slices: since Linux 6.12 it then runs sooner once it wakes, before those that compute with
// all their slice ahead of them. Elsewhere it stays as it is.
void wake_promptly() {
  constexpr uint64_t kSlice = 100'000;  // nanoseconds, the least that the kernel takes
  SchedulingAttributes own{};
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != SCHED_OTHER) return;
  own.runtime = kSlice;
  ::syscall(SYS_sched_setattr, 0, &own, 0);
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
      : options(std::move(given)), io(std::max(1, options.io_threads)), acceptor(asio::make_strand(io)) {}

  void dispatch(const Route& route, Request request, std::shared_ptr<ReplyHandle> reply);
  void run_async(const Route& route, const Request& request, const std::shared_ptr<ReplyHandle>& reply);
  awaitable<void> accept_loop();
  void adopt(int fd);

  ServerOptions options;
  RouteTable routes;
  asio::io_context io;
  asio::basic_socket_acceptor<tcp> acceptor;
  ConnectionHost host;
  int port = 0;
  std::unique_ptr<JobQueue> workers;
  std::vector<std::thread> threads;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
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

void HttpServer::Impl::run_async(const Route& route, const Request& request,
                                 const std::shared_ptr<ReplyHandle>& reply) {
  const auto run = [&](const Request& given) -> Response {
    route.async(given, reply);
    return {.status = 0};
  };
  Response response = run_handler(run, request);
  if (response.status != 0) reply->send(std::move(response));
}

void HttpServer::Impl::adopt(int fd) {
  const bool v4 = acceptor.local_endpoint().protocol() == tcp::v4();
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  tcp::socket socket(asio::make_strand(io));
  socket.assign(v4 ? tcp::v4() : tcp::v6(), fd);
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

awaitable<void> HttpServer::Impl::accept_loop() {
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    const auto [error] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kTuple);
    if (error) co_return;
    const int fd = accept_from(acceptor.native_handle());
    if (fd >= 0) {
      adopt(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      log::error("cannot accept a connection on port {}: {}", port, std::strerror(errno));
      pause.expires_after(std::chrono::milliseconds(200));  // until others close
      co_await pause.async_wait(kTuple);
    }
  }
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
  impl_->acceptor.assign(address.is_v4() ? tcp::v4() : tcp::v6(), fd);
  impl_->port = impl_->acceptor.local_endpoint().port();
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

void HttpServer::route(const std::string& method, const std::string& pattern, Handler handler) {
  TF_CHECK(!impl_->started, "route {} added after start()", pattern);
  impl_->routes.add({method, pattern, std::move(handler), nullptr, {}});
}

void HttpServer::route_async(const std::string& method, const std::string& pattern, AsyncHandler handler) {
  TF_CHECK(!impl_->started, "route {} added after start()", pattern);
  impl_->routes.add({method, pattern, nullptr, std::move(handler), {}});
}

void HttpServer::start() {
  TF_CHECK(!impl_->started, "start() called twice");
  // What this server has, as it has it: the documents are compared with it (cli/api.h).
  route_async("GET", "/routes", [impl = impl_.get()](const Request&, const ResponderPtr& reply) {
    reply->send(Response::json(impl->routes.listed()));
  });
  impl_->started = true;
  impl_->workers = std::make_unique<JobQueue>(std::max(1, impl_->options.worker_threads), impl_->options.max_queue);
  impl_->work.emplace(impl_->io.get_executor());
  asio::co_spawn(impl_->acceptor.get_executor(), [impl = impl_.get()] { return impl->accept_loop(); }, asio::detached);
  for (int i = 0; i < std::max(1, impl_->options.io_threads); ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] {
      wake_promptly();
      impl->io.run();
    });
  }
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
  asio::post(impl.acceptor.get_executor(), [&impl] {
    error_code ignored;
    impl.acceptor.close(ignored);
  });
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
  impl.work.reset();
  for (auto& thread : impl.threads) thread.join();
  impl.threads.clear();
}

}  // namespace tritonforge::net
