#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "net/bulk.h"
#include "net/bulk_wire.h"
#include "net/listen.h"
#include "net/stream.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

using namespace std::chrono_literals;

constexpr double kGreetingSeconds = 10;  // in which a stranger says its key
constexpr size_t kSlice = 512 << 10;     // sent before another connection of the same thread has its turn

// The file of a version, open, and the checksums of its pieces, each made when it is first asked for.
class Offer {
 public:
  Offer(uint64_t version, const fs::path& file)
      : version(version), fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)), map_(opened(fd_, file)) {
    sums_ = std::vector<std::atomic<uint64_t>>(bulk_pieces(bytes()));
    known_ = std::vector<std::atomic<bool>>(sums_.size());
  }
  ~Offer() { ::close(fd_); }
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;

  uint64_t bytes() const { return map_.bytes().size(); }
  int fd() const { return fd_; }
  std::span<const std::byte> piece(uint64_t number) const {
    return map_.bytes().subspan(std::min(number * kBulkPiece, bytes()), bulk_piece_bytes(bytes(), number));
  }
  uint64_t checksum(uint64_t number) {
    if (!known_[number].load(std::memory_order_acquire)) {
      sums_[number] = XXH3_64bits(piece(number).data(), piece(number).size());
      known_[number].store(true, std::memory_order_release);
    }
    return sums_[number];
  }

  const uint64_t version;

 private:
  // Of the very file that is open, whatever has its name by now.
  static fs::path opened(int fd, const fs::path& file) {
    if (fd < 0) fail(ErrorKind::kNotFound, "{}: {}", file.string(), std::strerror(errno));
    return fmt::format("/proc/self/fd/{}", fd);
  }
  const int fd_;
  const MappedFile map_;
  std::vector<std::atomic<uint64_t>> sums_;
  std::vector<std::atomic<bool>> known_;
};

}  // namespace

struct BulkServer::Impl {
  struct Connection : std::enable_shared_from_this<Connection> {
    explicit Connection(tcp::socket given) : stream(std::move(given)), limit(stream.get_executor()) {}
    // Closed from its own strand once `seconds` have passed, unless this is called again.
    void within(double seconds) {
      rest(seconds);
      limit.async_wait([self = shared_from_this()](error_code error) {
        error_code ignored;
        if (!error) self->stream.socket().close(ignored);
      });
    }
    void rest(double seconds) {
      limit.expires_after(
          std::chrono::duration_cast<asio::steady_timer::duration>(std::chrono::duration<double>(seconds)));
    }
    Stream stream;
    asio::steady_timer limit;
    bool awaits_offer = false;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  explicit Impl(BulkServerOptions given) : options(std::move(given)), guard(io.get_executor()), acceptor(io) {
    if (options.key.empty() && !is_loopback(options.host))
      fail(ErrorKind::kUsage, "a key is needed to listen on {}", options.host);
    if (!options.tls.cert.empty()) tls = std::make_shared<const TlsContext>(options.tls, TlsContext::Side::kServer);
    error_code error;
    const auto address = asio::ip::make_address(options.host, error);
    if (error) fail(ErrorKind::kUsage, "'{}' is not an address to listen on", options.host);
    acceptor.assign(address.is_v4() ? tcp::v4() : tcp::v6(), listen_on(address, options.host, options.port));
    asio::co_spawn(io, accept(), asio::detached);
    for (int i = 0; i < options.threads; ++i)
      threads.emplace_back([this] {
        sigset_t pipe;  // sendfile() has no flag against it
        ::sigemptyset(&pipe);
        ::sigaddset(&pipe, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
        io.run();
      });
  }
  ~Impl() {
    io.stop();
    for (std::thread& thread : threads) thread.join();
  }

  awaitable<void> accept() {
    co_await accept_each(
        acceptor, [this] { return asio::make_strand(io); },
        [this](tcp::socket socket) {
          if (count.load() >= options.connections) return;
          error_code ignored;
          socket.set_option(tcp::no_delay(true), ignored);
          ++count;
          const auto strand = socket.get_executor();
          asio::co_spawn(strand, serve(std::make_shared<Connection>(std::move(socket))), asio::detached);
        });
  }

  awaitable<void> serve(ConnectionPtr connection) {
    connection->within(kGreetingSeconds);
    bool go_on = tls == nullptr || co_await shake_hands(*connection);
    if (go_on) go_on = co_await greet(*connection);
    while (go_on) go_on = co_await answer(*connection);
    connection->limit.cancel();
    error_code ignored;
    connection->stream.socket().close(ignored);
    --count;
  }

  awaitable<bool> shake_hands(Connection& connection) {
    Stream& stream = connection.stream;
    stream.set_tls(std::make_unique<TlsSession>(tls, stream.socket().native_handle()));
    const auto [failed, ignored] = co_await stream.async_handshake(kTuple);
    if (failed && !stream.tls()->failure().empty()) log::info("weights over TLS: {}", stream.tls()->failure());
    co_return !failed;
  }

  awaitable<bool> greet(Connection& connection) {
    const std::string nonce = bulk_nonce();
    const std::string hello = std::string(kBulkHello) + nonce;
    if (!co_await write(connection, hello.data(), hello.size())) co_return false;
    std::string reply(kBulkNonce + kBulkMac, '\0');
    const auto [error, read] = co_await asio::async_read(connection.stream, asio::buffer(reply), kTuple);
    if (error) co_return false;
    const std::string theirs = reply.substr(0, kBulkNonce);
    if (!equal_in_constant_time(reply.substr(kBulkNonce), bulk_mac(options.key, "client", nonce, theirs)))
      co_return false;
    const std::string mac = bulk_mac(options.key, "server", nonce, theirs);
    co_return co_await write(connection, mac.data(), mac.size());
  }

  awaitable<bool> answer(Connection& connection) {
    connection.within(options.idle_s);  // it may rest between two requests; its machine may also be gone
    std::array<std::byte, kBulkRequest> bytes;
    const auto [error, read] = co_await asio::async_read(connection.stream, asio::buffer(bytes), kTuple);
    if (error) co_return false;
    const BulkRequest request = bulk_request(bytes);
    std::shared_ptr<Offer> offer = find(request.version, connection);
    if (connection.awaits_offer) {
      connection.rest(options.stall_s);
      co_await connection.limit.async_wait(kTuple);  // offer() ends it
      connection.awaits_offer = false;
      offer = stop_waiting(connection);
    }

    BulkHead head{BulkStatus::kHere, request.version, request.piece, 0, 0};
    if (offer == nullptr || offer->version != request.version) {
      head.status = offer == nullptr || offer->version < request.version ? BulkStatus::kNotYet : BulkStatus::kReplaced;
      head.version = offer == nullptr ? 0 : offer->version;
    } else {
      head.total = offer->bytes();
      const bool is_one = request.piece < bulk_pieces(head.total);
      if (is_one) head.checksum = offer->checksum(request.piece);
      else if (request.piece != kNoPiece) head.status = BulkStatus::kNoSuchPiece;
    }
    connection.within(options.stall_s);
    const auto sent = to_bytes(head);
    if (!co_await write(connection, sent.data(), sent.size())) co_return false;
    if (head.status != BulkStatus::kHere) co_return true;
    if (tls != nullptr) co_return co_await encrypt_piece(connection, offer->piece(request.piece));
    co_return co_await send_piece(connection, *offer, request.piece);
  }

  // Each slice that is taken gives the receiver its time anew, and other connections their turn.
  awaitable<bool> encrypt_piece(Connection& connection, std::span<const std::byte> left) {
    while (!left.empty()) {
      const auto slice = left.first(std::min(left.size(), kSlice));
      if (!co_await write(connection, slice.data(), slice.size())) co_return false;
      left = left.subspan(slice.size());
      connection.within(options.stall_s);
    }
    co_return true;
  }

  // The same straight out of the page cache.
  awaitable<bool> send_piece(Connection& connection, const Offer& offer, uint64_t piece) {
    tcp::socket& socket = connection.stream.socket();
    uint64_t left = bulk_piece_bytes(offer.bytes(), piece);
    auto at = static_cast<off_t>(piece * kBulkPiece);
    while (left > 0) {
      const ssize_t sent = ::sendfile(socket.native_handle(), offer.fd(), &at, std::min<uint64_t>(left, kSlice));
      if (sent > 0) {
        left -= static_cast<uint64_t>(sent);
        connection.within(options.stall_s);
        co_await asio::post(socket.get_executor(), asio::use_awaitable);
        continue;
      }
      if (sent == 0 || (errno != EAGAIN && errno != EINTR)) co_return false;
      if (errno == EINTR) continue;
      const auto [error] = co_await socket.async_wait(tcp::socket::wait_write, kTuple);
      if (error) co_return false;
    }
    co_return true;
  }

  static awaitable<bool> write(Connection& connection, const void* data, size_t size) {
    const auto [error, written] = co_await asio::async_write(connection.stream, asio::buffer(data, size), kTuple);
    co_return !error;
  }

  // What is there now. Where that is another version than an announced one, offer() ends the connection's rest.
  std::shared_ptr<Offer> find(uint64_t version, Connection& connection) {
    const std::lock_guard lock(mutex);
    const bool wanted = current == nullptr || current->version != version;
    connection.awaits_offer = wanted && announced == version;
    if (connection.awaits_offer) waiting.insert(connection.shared_from_this());
    return current;
  }
  std::shared_ptr<Offer> stop_waiting(Connection& connection) {
    const std::lock_guard lock(mutex);
    waiting.erase(connection.shared_from_this());
    return current;
  }

  const BulkServerOptions options;
  TlsContextPtr tls;  // null: plain
  std::atomic<size_t> count{0};
  std::mutex mutex;  // the next two
  uint64_t announced = kNoPiece;
  std::shared_ptr<Offer> current;
  asio::io_context io;              // what follows goes before it
  std::set<ConnectionPtr> waiting;  // likewise under the mutex
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  tcp::acceptor acceptor;
  std::vector<std::thread> threads;
};

BulkServer::BulkServer(BulkServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
BulkServer::~BulkServer() = default;
int BulkServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void BulkServer::offer(uint64_t version, const fs::path& file) {
  auto offer = std::make_shared<Offer>(version, file);
  std::set<Impl::ConnectionPtr> waiting;
  {
    const std::lock_guard lock(impl_->mutex);
    std::swap(impl_->current, offer);
    impl_->announced = kNoPiece;
    waiting.swap(impl_->waiting);
  }
  for (const auto& connection : waiting)
    asio::post(connection->stream.get_executor(), [connection] {
      if (connection->awaits_offer) connection->limit.cancel();
    });
}

size_t BulkServer::waiting() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waiting.size();
}

void BulkServer::announce(uint64_t version) {
  const std::lock_guard lock(impl_->mutex);
  impl_->announced = version;
}

}  // namespace tritonforge::net
