#include "net/tunnel.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/error.h"
#include "net/listen.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

using namespace std::chrono_literals;
using Socket = std::shared_ptr<tcp::socket>;
using Acceptor = std::shared_ptr<tcp::acceptor>;

constexpr size_t kParked = 8;       // connections of a node that wait for a client
constexpr size_t kWaiting = 1024;   // clients that wait for a node
constexpr size_t kStrangers = 256;  // connections that have not said their key
constexpr size_t kLongestHello = 64;
constexpr int kSilence = 15;  // seconds after which a machine that does not answer is given up

const asio::ip::address kLoopback = asio::ip::address_v4::loopback();

Acceptor listen(asio::io_context& io, const asio::ip::address& address, int port) {
  auto acceptor = std::make_shared<tcp::acceptor>(io);
  acceptor->assign(address.is_v4() ? tcp::v4() : tcp::v6(), listen_on(address, address.to_string(), port));
  return acceptor;
}

// Calls `take` with each connection until the acceptor is closed.
template <typename Take>
awaitable<void> accept_all(Acceptor acceptor, Take take) {
  co_await accept_each(
      *acceptor, [&] { return acceptor->get_executor(); },
      [&](tcp::socket socket) {
        notice_silence(socket.native_handle(), kSilence);
        take(std::make_shared<tcp::socket>(std::move(socket)));
      });
}

awaitable<Socket> connect(asio::any_io_executor executor, tcp::endpoint there) {
  const int fd = open_socket(there.address().is_v6());
  if (fd < 0) co_return nullptr;
  auto socket = std::make_shared<tcp::socket>(executor);
  socket->assign(there.protocol(), fd);
  notice_silence(fd, kSilence);
  const auto [error] = co_await socket->async_connect(there, kTuple);
  co_return error ? nullptr : socket;
}

// The other end is gone. It has nothing to say, so what it says is none of ours.
bool has_ended(const Socket& parked) {
  char byte = 0;
  const ssize_t count = ::recv(parked->native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count >= 0 || (errno != EAGAIN && errno != EINTR);
}

void close_both(const Socket& a, const Socket& b) {
  error_code ignored;
  a->close(ignored);
  b->close(ignored);
}

awaitable<void> pump(Socket from, Socket to) {
  std::vector<char> bytes(64 * 1024);
  while (true) {
    const auto [error, count] = co_await from->async_read_some(asio::buffer(bytes), kTuple);
    if (error == asio::error::eof) {  // the other direction may go on
      error_code ignored;
      to->shutdown(tcp::socket::shutdown_send, ignored);
      co_return;
    }
    if (error) break;
    const auto [write_error, written] = co_await asio::async_write(*to, asio::buffer(bytes.data(), count), kTuple);
    if (write_error) break;
  }
  close_both(from, to);
}

void join(const Socket& a, const Socket& b) {
  asio::co_spawn(a->get_executor(), pump(a, b), asio::detached);
  asio::co_spawn(b->get_executor(), pump(b, a), asio::detached);
}

// An io_context and its one thread. What runs there must be told through post().
class Loop {
 public:
  Loop() : guard_(io.get_executor()) {}
  ~Loop() { stop(); }
  void start() {
    thread_ = std::thread([this] { io.run(); });
  }
  void stop() {
    io.stop();
    if (thread_.joinable()) thread_.join();
  }
  asio::io_context io;

 private:
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace

struct TunnelHead::Impl {
  ~Impl() { loop.stop(); }

  struct Session {
    std::string key;
    std::vector<int> reaches;
    Acceptor acceptor;
    std::deque<Socket> parked, waiting;
  };

  // A connection of the node's waits for a client. A node keeps kParked of them: where there are more, the oldest are
  // of a network that lost them without a word.
  static void park(Session& session, const Socket& socket) {
    std::erase_if(session.parked, has_ended);
    if (session.parked.size() == kParked) session.parked.pop_front();
    session.parked.push_back(socket);
  }

  // A client and a connection of the node's that was parked: they are one from here on.
  static awaitable<void> give(std::shared_ptr<Session> session, Socket client) {
    while (!session->parked.empty()) {
      const Socket parked = session->parked.front();
      session->parked.pop_front();
      if (has_ended(parked)) continue;
      const auto [error, count] = co_await asio::async_write(*parked, asio::buffer("+", 1), kTuple);
      if (error) continue;
      join(client, parked);
      co_return;
    }
    if (session->waiting.size() < kWaiting && session->acceptor->is_open()) session->waiting.push_back(client);
  }

  void take_stranger(const Socket& socket) {
    if (strangers.size() >= kStrangers) return;  // closes it
    strangers.insert(socket);
    asio::co_spawn(loop.io, greet(socket), asio::detached);
  }

  // The first line of a connection from beyond this machine.
  awaitable<void> greet(Socket socket) {
    asio::steady_timer limit(loop.io, 10s);
    limit.async_wait([socket](error_code error) {
      error_code ignored;
      if (!error) socket->close(ignored);
    });
    std::string hello;
    char letter = 0;
    while (letter != '\n' && hello.size() < kLongestHello) {
      const auto [error, count] = co_await asio::async_read(*socket, asio::buffer(&letter, 1), kTuple);
      if (error) break;
      if (letter != '\n') hello += letter;
    }
    limit.cancel();
    strangers.erase(socket);
    if (letter != '\n') co_return;
    const size_t space = hello.find(' ');
    std::shared_ptr<Session> session;
    for (const auto& [name, known] : sessions)
      if (equal_in_constant_time(hello.substr(0, space), known->key)) session = known;
    if (!session || space == std::string::npos) co_return;

    const std::string wish = hello.substr(space + 1);
    int port = 0;
    if (wish == "serve") {
      park(*session, socket);
      if (session->waiting.empty()) co_return;
      const Socket client = session->waiting.front();
      session->waiting.pop_front();
      co_await give(session, client);
    } else if (std::sscanf(wish.c_str(), "reach %d", &port) == 1 && std::ranges::count(session->reaches, port) > 0) {
      const Socket here = co_await connect(loop.io.get_executor(), {kLoopback, static_cast<unsigned short>(port)});
      if (here) join(socket, here);
    }
  }

  static void close(Session& session) {
    error_code ignored;
    session.acceptor->close(ignored);
    session.parked.clear();
    session.waiting.clear();
  }

  Loop loop;  // first: sockets go before it
  std::string host;
  int port = 0;
  std::map<std::string, std::shared_ptr<Session>> sessions;  // this and strangers: of the loop's thread
  std::set<Socket> strangers;
  Acceptor acceptor;
};

TunnelHead::TunnelHead(const std::string& host) : impl_(std::make_unique<Impl>()) {
  Impl* impl = impl_.get();
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) fail(ErrorKind::kUsage, "'{}' is not an address to listen on", host);
  impl->host = host;
  impl->acceptor = listen(impl->loop.io, address, /*port=*/0);
  impl->port = impl->acceptor->local_endpoint().port();
  asio::co_spawn(impl->loop.io,
                 accept_all(impl->acceptor, [impl](const Socket& socket) { impl->take_stranger(socket); }),
                 asio::detached);
  impl->loop.start();
}

TunnelHead::~TunnelHead() = default;

TunnelEnd TunnelHead::open(const std::string& name, int serves, const std::vector<int>& reaches) {
  close(name);
  auto session = std::make_shared<Impl::Session>();
  session->key = random_key();
  session->reaches = reaches;
  session->acceptor = listen(impl_->loop.io, kLoopback, serves);
  asio::post(impl_->loop.io, [impl = impl_.get(), name, session] {
    impl->sessions[name] = session;
    const auto take = [impl, session](const Socket& client) {
      asio::co_spawn(impl->loop.io, Impl::give(session, client), asio::detached);
    };
    asio::co_spawn(impl->loop.io, accept_all(session->acceptor, take), asio::detached);
  });
  return {impl_->host, session->key, impl_->port, serves, reaches};
}

void TunnelHead::close(const std::string& name) {
  std::promise<void> closed;  // the port is free when this returns
  asio::post(impl_->loop.io, [&] {
    if (const auto session = impl_->sessions.extract(name)) Impl::close(*session.mapped());
    closed.set_value();
  });
  closed.get_future().wait();
}

struct TunnelNode::Impl {
  explicit Impl(const TunnelEnd& given)
      : end(given), head(asio::ip::make_address(given.host), static_cast<unsigned short>(given.port)) {}

  awaitable<Socket> dial(std::string wish) {
    const Socket socket = co_await connect(loop.io.get_executor(), head);
    if (!socket) co_return nullptr;
    const std::string hello = end.key + " " + wish + "\n";
    const auto [error, count] = co_await asio::async_write(*socket, asio::buffer(hello), kTuple);
    co_return error ? nullptr : socket;
  }

  // A connection that waits for a client at the head, then is that client's while another one waits.
  awaitable<void> park() {
    asio::steady_timer pause(loop.io);
    while (true) {
      const Socket client = co_await dial("serve");
      char go = 0;
      if (client) {
        const auto [error, count] = co_await asio::async_read(*client, asio::buffer(&go, 1), kTuple);
        if (error) go = 0;
      }
      if (go != '+') {  // the head is not there: it may come back
        pause.expires_after(200ms);
        co_await pause.async_wait(kTuple);
        continue;
      }
      asio::co_spawn(loop.io, serve(client), asio::detached);
    }
  }

  awaitable<void> serve(Socket client) {
    const Socket here = co_await connect(loop.io.get_executor(), {kLoopback, static_cast<unsigned short>(end.serves)});
    if (here) join(client, here);
  }

  awaitable<void> reach(Socket client, int port) {
    const Socket there = co_await dial(fmt::format("reach {}", port));
    if (there) join(client, there);
  }

  const TunnelEnd end;
  const tcp::endpoint head;
  Loop loop;
};

TunnelNode::TunnelNode(const TunnelEnd& end) : impl_(std::make_unique<Impl>(end)) {
  Impl* impl = impl_.get();
  for (const int port : end.reaches) {
    const Acceptor acceptor = listen(impl->loop.io, kLoopback, port);
    const auto take = [impl, port](const Socket& client) {
      asio::co_spawn(impl->loop.io, impl->reach(client, port), asio::detached);
    };
    asio::co_spawn(impl->loop.io, accept_all(acceptor, take), asio::detached);
  }
  for (size_t i = 0; i < kParked; ++i) asio::co_spawn(impl->loop.io, impl->park(), asio::detached);
  impl->loop.start();
}

TunnelNode::~TunnelNode() = default;

}  // namespace tritonforge::net
