#define XXH_STATIC_LINKING_ONLY  // the state's size
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net/asio.h"
#include "net/bulk.h"
#include "net/bulk_wire.h"
#include "net/listen.h"
#include "net/retry.h"
#include "net/tls_session.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

constexpr size_t kAhead = 2;           // requests of a connection that are not answered yet
constexpr size_t kGulp = 256 << 10;    // summed while it is still in the cache
constexpr double kConnectSeconds = 5;  // for one attempt

// A connection that blocks, and is shut down from elsewhere where it is to end.
class Link {
 public:
  Link(const BulkFetch& what, Deadline deadline) : what_(what), deadline_(deadline) {}
  ~Link() {
    if (fd_ >= 0) ::close(fd_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void open() {
    connect();
    if (what_.tls) shake_hands();
    std::string hello(kBulkHello.size() + kBulkNonce, '\0');
    read(reinterpret_cast<std::byte*>(hello.data()), hello.size());
    if (!hello.starts_with(kBulkHello)) fail(ErrorKind::kCorrupt, "{}: no such server", name());
    const std::string theirs = hello.substr(kBulkHello.size()), mine = bulk_nonce();
    const std::string reply = mine + bulk_mac(what_.key, "client", theirs, mine);
    write(reply.data(), reply.size());
    std::string mac(kBulkMac, '\0');
    try {
      read(reinterpret_cast<std::byte*>(mac.data()), mac.size());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) throw;  // TLS's own reason
      fail(ErrorKind::kUnavailable, "{} hung up at the key: is it that of this run?", name());
    }
    if (!equal_in_constant_time(mac, bulk_mac(what_.key, "server", theirs, mine)))
      fail(ErrorKind::kConflict, "{} does not have this run's key", name());
  }

  std::string name() const { return fmt::format("{}:{}", what_.host, what_.port); }

  void write(const void* data, size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      const size_t sent = tls_ ? write_encrypted(at, size) : write_plain(at, size);
      at += sent;
      size -= sent;
    }
  }

  void read(std::byte* to, size_t size, XXH3_state_t* sum = nullptr) {
    while (size > 0) {
      const size_t wanted = std::min(size, kGulp), got = tls_ ? read_encrypted(to, wanted) : read_plain(to, wanted);
      if (sum != nullptr) XXH3_64bits_update(sum, to, got);
      to += got;
      size -= got;
    }
  }

  BulkHead ask_size() {
    ask({what_.version, kNoPiece});
    return read_head({what_.version, kNoPiece}, 0);
  }
  void ask(const BulkRequest& request) {
    const auto bytes = to_bytes(request);
    write(bytes.data(), bytes.size());
  }
  BulkHead read_head(const BulkRequest& asked, uint64_t total) {
    std::array<std::byte, kBulkHead> bytes;
    read(bytes.data(), bytes.size());
    const BulkHead head = bulk_head(bytes);
    bytes_behind(head, asked, total);  // throws what is no answer
    return head;
  }

 private:
  void connect() {
    error_code error;
    const auto address = asio::ip::make_address(what_.host, error);
    if (error) fail(ErrorKind::kUsage, "'{}' is not an address", what_.host);
    const tcp::endpoint there(address, static_cast<unsigned short>(what_.port));
    fd_ = open_socket(address.is_v6());
    if (fd_ < 0) fail(ErrorKind::kUnavailable, "cannot open a socket: {}", std::strerror(errno));
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd_, there.data(), static_cast<socklen_t>(there.size())) != 0 && errno != EINPROGRESS) lost(errno);
    wait(POLLOUT, kConnectSeconds);
    int reason = 0;
    socklen_t size = sizeof reason;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &reason, &size);
    if (reason != 0) lost(reason);
  }
  [[noreturn]] void lost(int reason) const {
    // Nobody listens there: whoever offered the file is gone, and so is its offer.
    fail(reason == ECONNREFUSED ? ErrorKind::kNotFound : ErrorKind::kUnavailable, "{}: {}", name(),
         std::strerror(reason));
  }

  void shake_hands() {
    const auto context = std::make_shared<const TlsContext>(*what_.tls, TlsContext::Side::kClient);
    tls_ = std::make_unique<TlsSession>(context, fd_, what_.host);
    error_code error;
    while (until_ready(tls_->handshake(error), error)) {}
  }

  // Bytes that were sent or came; 0: again.
  size_t write_plain(const char* from, size_t size) {
    const ssize_t sent = ::send(fd_, from, size, MSG_NOSIGNAL);
    if (sent > 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) wait(POLLOUT);
    else if (errno != EINTR) fail(ErrorKind::kUnavailable, "{}: {}", name(), std::strerror(errno));
    return 0;
  }
  size_t read_plain(std::byte* to, size_t size) {
    const ssize_t got = ::recv(fd_, to, size, 0);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) fail(ErrorKind::kUnavailable, "{} hung up", name());
    if (errno == EAGAIN) {
      wake_for(size);
      wait(POLLIN);
    } else if (errno != EINTR) {
      fail(ErrorKind::kUnavailable, "{}: {}", name(), std::strerror(errno));
    }
    return 0;
  }
  size_t write_encrypted(const char* from, size_t size) {
    size_t sent = 0;
    error_code error;
    const TlsSession::Wait next = tls_->write(asio::buffer(from, size), sent, error);
    if (sent == 0) until_ready(next, error);
    return sent;
  }
  size_t read_encrypted(std::byte* to, size_t size) {
    size_t got = 0;
    error_code error;
    const TlsSession::Wait next = tls_->read(asio::buffer(to, size), got, error);
    if (got == 0) until_ready(next, error);
    return got;
  }
  // Whether there was something to wait for. Throws what the step before came to: kUsage where somebody must mend it.
  bool until_ready(TlsSession::Wait next, error_code error) {
    if (error == asio::error::eof || error == http::error::partial_message)
      fail(ErrorKind::kUnavailable, "{} hung up", name());
    if (error) {
      fail(tls_->is_lasting() ? ErrorKind::kUsage : ErrorKind::kUnavailable, "{}: {}", name(),
           tls_->failure().empty() ? error.message() : tls_->failure());
    }
    if (next != TlsSession::Wait::kNone) wait(next == TlsSession::Wait::kRead ? POLLIN : POLLOUT);
    return next != TlsSession::Wait::kNone;
  }

  // The next wait ends with so many bytes, not with every packet.
  void wake_for(size_t bytes) {
    const int wanted = static_cast<int>(bytes);
    if (wanted != wakes_for_) ::setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    wakes_for_ = wanted;
  }

  void wait(short event, double most_s = 0) const {
    const double patience = most_s > 0 ? most_s : what_.stall_s;
    const double seconds = std::min(patience, deadline_.remaining_s());
    pollfd poll{.fd = fd_, .events = event, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::max(0.0, seconds) * 1e3) + 1);
    if (ready == 0) fail(ErrorKind::kTimeout, "{}: nothing came for {:.0f} s", name(), seconds);
    if (ready < 0 && errno != EINTR) fail(ErrorKind::kUnavailable, "{}: {}", name(), std::strerror(errno));
  }

  const BulkFetch& what_;
  const Deadline deadline_;
  int fd_ = -1, wakes_for_ = 1;
  std::unique_ptr<TlsSession> tls_;  // null: plain
};

// The pieces that are not there yet, shared by the connections.
class Fetch {
 public:
  Fetch(const BulkFetch& what, std::span<std::byte> to, Deadline deadline)
      : what_(what), to_(to), deadline_(deadline), pieces_(bulk_pieces(to.size())), missing_(pieces_) {}

  void run() {
    std::vector<std::thread> threads;
    const auto streams = std::min<uint64_t>(static_cast<uint64_t>(std::max(1, what_.streams)), pieces_);
    for (uint64_t i = 1; i < streams; ++i) threads.emplace_back([this] { keep_fetching(); });
    keep_fetching();
    for (std::thread& thread : threads) thread.join();
    if (missing_ > 0) throw Error(*error_);
  }

 private:
  void keep_fetching() {
    const Backoff backoff{.first_s = 0.05, .max_s = 1};
    std::unique_ptr<Link> link;
    for (int failures = 0; more();) {
      std::deque<uint64_t> asked;
      try {
        if (!link) {
          link = std::make_unique<Link>(what_, deadline_);
          link->open();
        }
        while (fetch_one(*link, asked)) failures = 0;
        return;
      } catch (const Error& error) {
        link.reset();
        give_back(asked, error);
        const bool final = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kConflict ||
                           error.kind() == ErrorKind::kUsage;
        if (final) return end(error);
        if (++failures >= what_.attempts || deadline_.expired()) return;
        pause(std::min(backoff.pause_s(failures - 1), deadline_.remaining_s()));
      }
    }
  }

  // False: nothing is left to ask for, and nothing asked for is outstanding.
  bool fetch_one(Link& link, std::deque<uint64_t>& asked) {
    while (asked.size() < kAhead) {
      const std::optional<uint64_t> piece = take(/*wait=*/asked.empty());
      if (!piece) break;
      asked.push_back(*piece);
      link.ask({what_.version, *piece});
    }
    if (asked.empty()) return false;
    const uint64_t piece = asked.front();
    const BulkHead head = link.read_head({what_.version, piece}, to_.size());
    if (head.status == BulkStatus::kNotYet) fail(ErrorKind::kNotFound, "version {} is no longer there", what_.version);
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    link.read(to_.data() + piece * kBulkPiece, bulk_piece_bytes(to_.size(), piece), &sum);
    if (const uint64_t found = XXH3_64bits_digest(&sum); found != head.checksum) {
      fail(ErrorKind::kCorrupt, "{}: piece {} of version {} has checksum {:016x}, expected {:016x}", link.name(), piece,
           what_.version, found, head.checksum);
    }
    asked.pop_front();
    const std::lock_guard lock(mutex_);
    if (--missing_ == 0) changed_.notify_all();
    return true;
  }

  bool more() {
    const std::lock_guard lock(mutex_);
    return missing_ > 0 && !ended_;
  }
  // A piece to ask for; waits where others have all of them and may yet give some back.
  std::optional<uint64_t> take(bool wait) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return ended_ || missing_ == 0 || !returned_.empty() || next_ < pieces_; };
    if (wait && !changed_.wait_until(lock, deadline_.at(), ready))
      fail(ErrorKind::kTimeout, "{} pieces of version {} did not come in time", missing_, what_.version);
    if (ended_ || missing_ == 0) return std::nullopt;
    if (!returned_.empty()) {
      const uint64_t piece = returned_.front();
      returned_.pop_front();
      return piece;
    }
    if (next_ < pieces_) return next_++;
    return std::nullopt;
  }
  void give_back(const std::deque<uint64_t>& asked, const Error& error) {
    const std::lock_guard lock(mutex_);
    returned_.insert(returned_.end(), asked.begin(), asked.end());
    error_ = error;
    changed_.notify_all();
  }
  void end(const Error& error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
    ended_ = true;
    changed_.notify_all();
  }

  const BulkFetch& what_;
  const std::span<std::byte> to_;
  const Deadline deadline_;
  const uint64_t pieces_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0, missing_;
  std::deque<uint64_t> returned_;
  bool ended_ = false;
  std::optional<Error> error_;
};

}  // namespace

void bulk_fetch(const BulkFetch& what, const std::function<std::span<std::byte>(uint64_t total)>& place,
                Deadline deadline) {
  const auto size = [&]() -> Result<uint64_t> {
    try {
      Link link(what, deadline);
      link.open();
      const BulkHead head = link.ask_size();
      if (head.status == BulkStatus::kHere) return head.total;
      return Error(ErrorKind::kNotFound, fmt::format("{}: version {} is not there", link.name(), what.version));
    } catch (const Error& error) {
      return error;
    }
  };
  const auto again = [n = 0, &what](const Error& error) mutable { return is_transient(error) && ++n < what.attempts; };
  const std::string name = fmt::format("version {} from {}:{}", what.version, what.host, what.port);
  const uint64_t total = retry<uint64_t>(name, deadline, size, {.again = again}).value();
  const std::span<std::byte> to = place(total);
  TF_CHECK(to.size() == total, "{} bytes were placed in {}", total, to.size());
  Fetch(what, to, deadline).run();
}

}  // namespace tritonforge::net
