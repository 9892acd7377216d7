#pragma once
// What both sides of a connection read and write through: a socket, plain or under TLS. It is an asynchronous stream as
// Asio has them, so that async_write() and coroutines do not see which.
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "net/tls_session.h"

namespace tritonforge::net {

class Stream {
 public:
  using executor_type = tcp::socket::executor_type;
  explicit Stream(tcp::socket socket) : socket_(std::move(socket)) {}
  executor_type get_executor() { return socket_.get_executor(); }
  tcp::socket& socket() { return socket_; }

  // From here on under `session`, whose handshake is to be made unless it was; null: plain.
  void set_tls(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }
  const TlsSession* tls() const { return tls_.get(); }
  std::unique_ptr<TlsSession> release_tls() { return std::move(tls_); }

  // Tells the peer that nothing follows, as far as the socket takes it now; a plain stream has its own way.
  void say_end() {
    if (tls_ && socket_.is_open()) tls_->say_end();
  }

  // Writes what the socket takes without a wait, so that a message that fits costs no turn of the loop; `from` becomes
  // what is left. Under TLS nothing is.
  void write_now(std::span<asio::const_buffer>& from, error_code& error) {
    if (tls_) return;
    if (!socket_.non_blocking()) socket_.non_blocking(true, error);
    size_t sent = error ? 0 : socket_.write_some(from, error);
    if (error == asio::error::would_block) error = {};
    while (!from.empty() && sent >= from.front().size()) {
      sent -= from.front().size();
      from = from.subspan(1);
    }
    if (!from.empty()) from.front() += sent;
  }

  template <typename Token>
  auto async_handshake(Token&& token) {
    const auto step = [tls = tls_.get()](size_t&, error_code& error) { return tls->handshake(error); };
    return run(step, std::forward<Token>(token));
  }
  template <typename Token>
  auto async_read_some(asio::mutable_buffer to, Token&& token) {
    if (!tls_) return socket_.async_read_some(to, std::forward<Token>(token));
    const auto step = [tls = tls_.get(), to](size_t& size, error_code& error) { return tls->read(to, size, error); };
    return run(step, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (!tls_) return socket_.async_write_some(buffers, std::forward<Token>(token));
    return run(Write{tls_.get(), first_of(buffers)}, std::forward<Token>(token));
  }

 private:
  using Wait = TlsSession::Wait;
  static constexpr size_t kRecord = 16384;  // what TLS encrypts at once

  // The first two buffers that hold something: a message's head and its body.
  using Pair = std::array<asio::const_buffer, 2>;
  template <typename Buffers>
  static Pair first_of(const Buffers& buffers) {
    Pair pair;
    size_t count = 0;
    for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers) && count < 2; ++at) {
      if (asio::const_buffer(*at).size() > 0) pair[count++] = *at;
    }
    return pair;
  }

  struct Write {
    Wait operator()(size_t& size, error_code& error) const {
      const auto& [head, body] = buffers;
      if (head.size() >= kRecord || body.size() == 0) return tls->write(head, size, error);
      std::array<char, kRecord> record;  // one, not one for each
      const size_t together = asio::buffer_copy(asio::buffer(record), buffers);
      return tls->write(asio::buffer(record.data(), together), size, error);
    }
    TlsSession* tls;
    Pair buffers;
  };

  // Calls `step` until it waits for nothing. Its end is never within the call that began it.
  template <typename Step>
  struct Operation {
    template <typename Self>
    void operator()(Self& self, error_code error = {}) {
      if (ended) return self.complete(result, size);
      Wait wait = Wait::kNone;
      // Once it is closed, its descriptor may be another connection's.
      if (!socket.is_open()) error = asio::error::operation_aborted;
      if (error) result = error;
      else wait = step(size, result);
      if (wait != Wait::kNone) {
        begun = true;
        socket.async_wait(wait == Wait::kRead ? tcp::socket::wait_read : tcp::socket::wait_write, std::move(self));
      } else if (begun) {
        self.complete(result, size);
      } else {
        ended = true;
        asio::post(socket.get_executor(), std::move(self));
      }
    }
    tcp::socket& socket;
    Step step;
    bool begun = false, ended = false;
    size_t size = 0;
    error_code result = {};
  };

  template <typename Step, typename Token>
  auto run(Step step, Token&& token) {
    return asio::async_compose<std::remove_reference_t<Token>, void(error_code, size_t)>(
        Operation<Step>{socket_, std::move(step)}, token, socket_);
  }

  tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace tritonforge::net
