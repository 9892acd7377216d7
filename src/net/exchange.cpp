#include "net/exchange.h"

#include <array>
#include <span>

#include "net/listen.h"
#include "net/message_parser.h"
#include "net/wire.h"

namespace tritonforge::net {

// One run of exchange(), whose frame holds it: not in a namespace without a name, where this is one file of several
// that are compiled as one.
using Cut = ExchangeState::Cut;

constexpr int kSilence_s = 60;  // after which a machine that does not answer at all is given up

struct Attempt {
  bool reused = false, connected = false, written = false, any_reply = false, head_seen = false, hung_up = false;
  error_code error;  // transport failure
  ErrorKind kind = ErrorKind::kUnavailable;
  std::string what;  // what was being done
};

class Exchange {
 public:
  Exchange(std::shared_ptr<ExchangeState> state, std::shared_ptr<SocketPool> pool, const AsyncRequest& request,
           const AsyncCallbacks& callbacks)
      : state_(std::move(state)),
        pool_(std::move(pool)),
        request_(request),
        callbacks_(callbacks),
        url_(parse_url(request.url)) {}

  awaitable<std::optional<Error>> run(bool& head_seen) {
    state_->end_within(request_.timeout_s);
    Attempt attempt;
    for (bool allow_reuse = true;; allow_reuse = false) {
      attempt = Attempt{};
      co_await try_once(attempt, allow_reuse);
      const bool safe = !attempt.written || request_.method == "GET" || request_.method == "HEAD";
      if (attempt.error && attempt.reused && !attempt.any_reply && safe && state_->cut() == Cut::kNone) continue;
      break;
    }
    head_seen = attempt.head_seen;
    co_return outcome(attempt);
  }

 private:
  std::optional<Error> outcome(const Attempt& attempt) const {
    if (!attempt.error || attempt.hung_up) return std::nullopt;
    if (state_->cut() == Cut::kCancelled) return state_->reason();
    const std::string name = request_.method + " " + request_.url;
    switch (state_->cut()) {
      case Cut::kTotal:
        return Error(ErrorKind::kTimeout, fmt::format("{}: no complete reply within {:g} s (while {})", name,
                                                      request_.timeout_s, attempt.what));
      case Cut::kConnect:
        return Error(ErrorKind::kUnavailable,
                     fmt::format("{}: no connection within {:g} s", name, request_.connect_timeout_s));
      default: break;
    }
    if (attempt.error == http::error::body_limit)
      return Error(ErrorKind::kCorrupt,
                   fmt::format("{}: the reply is longer than {} bytes", name, request_.longest_reply.value()));
    if (const TlsSession* tls = stream().tls(); tls && !tls->failure().empty())
      return Error(tls->is_lasting() ? ErrorKind::kUsage : ErrorKind::kUnavailable,
                   fmt::format("{}: {}", name, tls->failure()));
    if (attempt.error == asio::error::eof || attempt.error == http::error::end_of_stream ||
        attempt.error == http::error::partial_message) {
      return Error(ErrorKind::kUnavailable, fmt::format("{}: the server closed the connection {}", name,
                                                        attempt.any_reply   ? "in the middle of its reply"
                                                        : attempt.connected ? "without a reply"
                                                                            : "in the TLS handshake"));
    }
    return Error(attempt.kind, fmt::format("{}: {} (while {})", name, attempt.error.message(), attempt.what));
  }

  awaitable<void> try_once(Attempt& attempt, bool allow_reuse) {
    if (state_->cut() != Cut::kNone) {  // cancelled before it began
      attempt.error = asio::error::operation_aborted;
      co_return;
    }
    if (allow_reuse) {
      if (auto kept = pool_->take(url_.authority, url_.tls)) {
        state_->use(std::move(kept));
        attempt.reused = true;
      }
    }
    if (!attempt.reused) co_await connect(attempt);
    if (attempt.error) co_return;
    attempt.connected = true;
    attempt.what = "sending the request";
    const std::string head = request_head(request_.method, url_, request_.headers,
                                          request_.body ? request_.body->size() : 0);
    std::array<asio::const_buffer, 2> buffers{asio::buffer(head),
                                              request_.body ? asio::buffer(*request_.body) : asio::const_buffer()};
    std::span<asio::const_buffer> unsent(buffers);
    error_code write_error;
    stream().write_now(unsent, write_error);
    if (!write_error && !unsent.empty())
      write_error = std::get<0>(co_await asio::async_write(stream(), unsent, kTuple));
    attempt.written = !write_error;
    // A server may refuse (413) and close while the body is still going out: its reply counts, not the broken pipe.
    co_await read_reply(attempt);
    if (write_error && !attempt.any_reply) attempt.error = write_error;
  }

  awaitable<void> connect(Attempt& attempt) {
    attempt.what = "connecting";
    state_->use(std::make_unique<ClientSocket>(state_->executor));
    state_->connect_within(request_.connect_timeout_s);
    tcp::socket& socket = stream().socket();
    const std::vector<asio::ip::address> addresses = co_await look_up(attempt);
    for (const auto& address : addresses) {
      if (state_->cut() != Cut::kNone) break;
      const tcp::endpoint endpoint(address, static_cast<unsigned short>(url_.port));
      error_code error;
      const int fd = open_socket(endpoint.address().is_v6());
      if (fd < 0) {
        attempt.error = error_code(errno, boost::system::system_category());
        break;
      }
      socket.close(error);
      socket.assign(endpoint.protocol(), fd, error);
      notice_silence(fd, kSilence_s);
      const auto [connect_error] = co_await socket.async_connect(endpoint, kTuple);
      attempt.error = connect_error;
      if (!connect_error) break;
    }
    if (!attempt.error && (addresses.empty() || state_->cut() != Cut::kNone))
      attempt.error = asio::error::operation_aborted;
    if (!attempt.error && url_.tls) co_await shake_hands(attempt);
    state_->connected();
  }

  // Nothing where there was an error, or it was cut off.
  awaitable<std::vector<asio::ip::address>> look_up(Attempt& attempt) {
    error_code not_literal;
    const auto literal = asio::ip::make_address(url_.host, not_literal);
    if (!not_literal) co_return std::vector{literal};
    attempt.what = "looking up " + url_.host;
    const std::shared_ptr<Lookup> lookup = pool_->lookups().of(url_.host);
    const auto waiter = std::make_shared<Lookup::Waiter>(state_->executor);
    state_->lookup = waiter;
    lookup->add(waiter);
    while (state_->cut() == Cut::kNone && !lookup->is_over()) co_await waiter->woken.wait();
    lookup->remove(waiter);
    state_->lookup.reset();
    if (state_->cut() != Cut::kNone) co_return std::vector<asio::ip::address>();
    attempt.error = lookup->error();
    co_return lookup->addresses();
  }

  awaitable<void> shake_hands(Attempt& attempt) {
    attempt.what = "agreeing on TLS";
    const int fd = stream().socket().native_handle();
    stream().set_tls(std::make_unique<TlsSession>(pool_->tls(), fd, url_.host));
    const auto [error, ignored] = co_await stream().async_handshake(kTuple);
    attempt.error = error;
  }

  awaitable<void> read_reply(Attempt& attempt) {
    attempt.what = "waiting for the reply";
    const ReplyParser::OnHead on_head = [&](int status, Headers headers) {
      attempt.head_seen = true;
      attempt.what = "reading the reply";
      callbacks_.on_head(status, std::move(headers));
    };
    std::optional<ReplyParser> parser;
    const auto fresh_parser = [&] {
      parser.emplace(on_head, callbacks_.on_body, request_.longest_reply, request_.method == "HEAD");
    };
    fresh_parser();
    std::string rest;  // what came and is not parsed yet
    while (!parser->is_done()) {
      char* const chunk = state_->socket->chunk.get();
      const auto [error, size] = co_await stream().async_read_some(asio::buffer(chunk, ClientSocket::kChunk), kTuple);
      attempt.any_reply = attempt.any_reply || size > 0;
      if (error == asio::error::eof && parser->is_header_done()) {
        parser->put_eof(attempt.error);  // a body that ends with the connection; otherwise partial_message
        co_return;
      }
      if (error) {
        attempt.error = error;
        co_return;
      }
      // From where it was read, unless something is left of before.
      if (!rest.empty()) rest.append(chunk, size);
      std::string_view input = rest.empty() ? std::string_view(chunk, size) : rest;
      while (!input.empty() && !parser->is_done()) {
        error_code failed;
        const size_t used = parser->put(asio::buffer(input), failed);
        input.remove_prefix(used);
        if ((attempt.hung_up = parser->hung_up())) co_return;
        if (failed && failed != http::error::need_more) {
          attempt.error = failed;
          attempt.what = "reading a malformed reply";
          if (!attempt.head_seen) attempt.kind = ErrorKind::kUsage;  // it is no HTTP
          co_return;
        }
        if (parser->is_interim()) fresh_parser();
        else if (used == 0) break;
      }
      rest = std::string(input);
    }
    keep(*parser, rest.empty());
  }

  void keep(const ReplyParser& parser, bool clean) {
    if (!clean || !parser.keep_alive() || parser.need_eof() || state_->cut() != Cut::kNone ||
        !stream().socket().is_open())
      return;
    if (stream().tls() && stream().tls()->has_unread()) return;
    pool_->put(url_.authority, state_->release());
  }

  Stream& stream() const { return state_->socket->stream; }

  std::shared_ptr<ExchangeState> state_;
  std::shared_ptr<SocketPool> pool_;
  const AsyncRequest& request_;
  const AsyncCallbacks& callbacks_;
  const Url url_;
};

void ExchangeState::end_within(double seconds) {
  end_ = Deadline::after(seconds).at();
  watch();
}

void ExchangeState::connect_within(double seconds) {
  connect_end_ = Deadline::after(seconds).at();
  watch();
}

void ExchangeState::connected() {
  connect_end_ = Clock::time_point::max();
  watch();
}

void ExchangeState::use(std::unique_ptr<ClientSocket> fresh) {
  socket = std::move(fresh);
  socket->on_alarm = this;
  watch();
}

std::unique_ptr<ClientSocket> ExchangeState::release() {
  socket->on_alarm = nullptr;
  socket->alarm.clear();
  return std::move(socket);
}

void ExchangeState::cancel_for(const std::optional<Error>& reason) {
  if (cut_ == Cut::kNone) reason_ = reason;
  cancel();
}

void ExchangeState::rang() { cut_off(end_ <= connect_end_ ? Cut::kTotal : Cut::kConnect); }

void ExchangeState::cut_off(Cut reason) {
  if (cut_ != Cut::kNone) return;
  cut_ = reason;
  error_code ignored;
  if (socket) socket->stream.socket().close(ignored);
  if (const auto waiter = lookup) waiter->woken.notify();  // goes on within the call
}

awaitable<void> exchange(std::shared_ptr<ExchangeState> state, std::shared_ptr<SocketPool> pool,
                         const AsyncRequest& request, AsyncCallbacks callbacks) {
  std::optional<Error> error;
  bool head_seen = false;
  try {
    Exchange one(state, std::move(pool), request, callbacks);
    error = co_await one.run(head_seen);
  } catch (const Error& failed) {
    error = failed;
  } catch (const std::exception& failed) {
    error = Error(ErrorKind::kInternal, fmt::format("{} {}: {}", request.method, request.url, failed.what()));
  }
  state->socket.reset();
  // What fails at once does not fail within the call that began it; a reply has had to be waited for.
  if (error || state->cut() != Cut::kNone) co_await asio::post(state->executor, asio::use_awaitable);
  callbacks.on_done(std::move(error), head_seen);
}

}  // namespace tritonforge::net
