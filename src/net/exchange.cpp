#include "net/exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "net/listen.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

Clock::duration in_clock(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

using Cut = ExchangeState::Cut;

void arm(asio::steady_timer& timer, const std::shared_ptr<ExchangeState>& state, double seconds, Cut reason) {
  timer.expires_after(in_clock(seconds));
  timer.async_wait([state, reason, &timer](error_code error) {
    if (error || timer.expiry() > Clock::now() || state->cut != Cut::kNone) return;
    state->cut = reason;
    state->close();
  });
}

void disarm(asio::steady_timer& timer) { timer.expires_at(Clock::time_point::max()); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct Attempt {
  bool reused = false, connected = false, written = false, any_reply = false, head_seen = false, hung_up = false;
  error_code error;  // transport failure
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
    if (request_.timeout_s > 0) arm(state_->total_timer, state_, request_.timeout_s, Cut::kTotal);
    Attempt attempt;
    for (bool allow_reuse = true;; allow_reuse = false) {
      attempt = Attempt{};
      co_await try_once(attempt, allow_reuse);
      const bool safe = !attempt.written || request_.method == "GET" || request_.method == "HEAD";
      if (attempt.error && attempt.reused && !attempt.any_reply && safe && state_->cut == Cut::kNone) continue;
      break;
    }
    disarm(state_->total_timer);
    disarm(state_->step_timer);
    head_seen = attempt.head_seen;
    co_return outcome(attempt);
  }

 private:
  std::optional<Error> outcome(const Attempt& attempt) const {
    if (attempt.hung_up || state_->cut == Cut::kCancelled) return std::nullopt;
    const std::string name = request_.method + " " + request_.url;
    if (!attempt.error) return std::nullopt;
    switch (state_->cut) {
      case Cut::kTotal:
        return Error(ErrorKind::kTimeout, fmt::format("{}: no complete reply within {:g} s (while {})", name,
                                                      request_.timeout_s, attempt.what));
      case Cut::kIdle:
        return Error(ErrorKind::kTimeout, fmt::format("{}: nothing came for {:g} s", name, request_.idle_timeout_s));
      case Cut::kConnect:
        return Error(ErrorKind::kUnavailable,
                     fmt::format("{}: no connection within {:g} s", name, request_.connect_timeout_s));
      default: break;
    }
    if (const TlsSession* tls = state_->stream.tls(); tls && !tls->failure().empty())
      return Error(tls->is_lasting() ? ErrorKind::kUsage : ErrorKind::kUnavailable,
                   fmt::format("{}: {}", name, tls->failure()));
    if (attempt.error == asio::error::eof || attempt.error == http::error::end_of_stream ||
        attempt.error == http::error::partial_message) {
      return Error(ErrorKind::kUnavailable, fmt::format("{}: the server closed the connection {}", name,
                                                        attempt.any_reply   ? "in the middle of its reply"
                                                        : attempt.connected ? "without a reply"
                                                                            : "in the TLS handshake"));
    }
    return Error(ErrorKind::kUnavailable,
                 fmt::format("{}: {} (while {})", name, attempt.error.message(), attempt.what));
  }

  awaitable<void> try_once(Attempt& attempt, bool allow_reuse) {
    if (allow_reuse) {
      if (auto pooled = pool_->take(url_.authority, url_.tls)) {
        state_->stream.socket().assign(pooled->v6 ? tcp::v6() : tcp::v4(), pooled->fd, attempt.error);
        state_->stream.set_tls(std::move(pooled->tls));
        v6_ = pooled->v6;
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
    const auto [write_error, sent] = co_await asio::async_write(state_->stream, buffers, kTuple);
    attempt.written = sent == asio::buffer_size(buffers);
    // A server may refuse (413) and close while the body is still going out: its reply counts, not the broken pipe.
    co_await read_reply(attempt);
    if (write_error && !attempt.any_reply) attempt.error = write_error;
  }

  awaitable<void> connect(Attempt& attempt) {
    attempt.what = "connecting";
    arm(state_->step_timer, state_, request_.connect_timeout_s, Cut::kConnect);
    state_->stream.set_tls(nullptr);
    tcp::socket& socket = state_->stream.socket();
    std::vector<tcp::endpoint> endpoints;
    error_code not_literal;
    const auto literal = asio::ip::make_address(url_.host, not_literal);
    if (!not_literal) {
      endpoints.emplace_back(literal, static_cast<unsigned short>(url_.port));
    } else {
      attempt.what = "looking up " + url_.host;
      const auto [error, found] = co_await state_->resolver.async_resolve(url_.host, std::to_string(url_.port), kTuple);
      attempt.error = error;
      for (const auto& entry : found) endpoints.push_back(entry.endpoint());
    }
    for (const auto& endpoint : endpoints) {
      if (state_->cut != Cut::kNone) break;
      error_code error;
      v6_ = endpoint.address().is_v6();
      const int fd = open_socket(v6_);
      if (fd < 0) {
        attempt.error = error_code(errno, boost::system::system_category());
        break;
      }
      socket.close(error);
      socket.assign(endpoint.protocol(), fd, error);
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const auto [connect_error] = co_await socket.async_connect(endpoint, kTuple);
      attempt.error = connect_error;
      if (!connect_error) break;
    }
    if (!attempt.error && (endpoints.empty() || state_->cut != Cut::kNone))
      attempt.error = asio::error::operation_aborted;
    if (!attempt.error && url_.tls) co_await shake_hands(attempt);
    disarm(state_->step_timer);
  }

  awaitable<void> shake_hands(Attempt& attempt) {
    attempt.what = "agreeing on TLS";
    Stream& stream = state_->stream;
    stream.set_tls(std::make_unique<TlsSession>(pool_->tls(), stream.socket().native_handle(), url_.host));
    const auto [error, ignored] = co_await stream.async_handshake(kTuple);
    attempt.error = error;
  }

  awaitable<void> read_reply(Attempt& attempt) {
    attempt.what = "waiting for the reply";
    std::optional<http::response_parser<http::string_body>> parser;
    const auto fresh_parser = [&] {
      parser.emplace();
      parser->header_limit(1 << 16);
      parser->body_limit(boost::none);
      parser->eager(true);
      if (request_.method == "HEAD") parser->skip(true);
    };
    fresh_parser();
    std::string input;
    std::unique_ptr<char[]> chunk(new char[kChunk]);
    while (!parser->is_done()) {
      if (request_.idle_timeout_s > 0) arm(state_->step_timer, state_, request_.idle_timeout_s, Cut::kIdle);
      const auto [error, size] = co_await state_->stream.async_read_some(asio::buffer(chunk.get(), kChunk), kTuple);
      attempt.any_reply = attempt.any_reply || size > 0;
      if (error == asio::error::eof && parser->is_header_done() && !parser->is_done()) {
        error_code end;
        parser->put_eof(end);  // a body that ends with the connection; otherwise partial_message
        attempt.error = end;
        if (end || !deliver(*parser, attempt)) co_return;
        break;
      }
      if (error) {
        attempt.error = error;
        co_return;
      }
      input.append(chunk.get(), size);
      while (!input.empty() && !parser->is_done()) {
        error_code parse_error;
        const size_t used = parser->put(asio::buffer(input), parse_error);
        input.erase(0, used);
        if (parse_error && parse_error != http::error::need_more) {
          attempt.error = parse_error;
          attempt.what = "reading a malformed reply";
          co_return;
        }
        if (parser->is_header_done() && parser->get().result_int() / 100 == 1 && parser->is_done()) {
          fresh_parser();  // 100 Continue
          continue;
        }
        if (!deliver(*parser, attempt)) co_return;
        if (used == 0) break;
      }
    }
    keep(*parser, input.empty());
  }

  // Hands out what the parser has. False: the receiver hung up.
  bool deliver(http::response_parser<http::string_body>& parser, Attempt& attempt) {
    if (!parser.is_header_done()) return true;
    auto& message = parser.get();
    if (!attempt.head_seen) {
      Headers headers;
      for (const auto& field : message) {
        std::string& value = headers[lower(field.name_string())];
        value += (value.empty() ? "" : ", ") + std::string(field.value());
      }
      attempt.head_seen = true;
      attempt.what = "reading the reply";
      callbacks_.on_head(static_cast<int>(message.result_int()), headers);
    }
    if (message.body().empty()) return true;
    attempt.hung_up = !callbacks_.on_body(message.body());
    message.body().clear();
    return !attempt.hung_up;
  }

  void keep(const http::response_parser<http::string_body>& parser, bool clean) {
    Stream& stream = state_->stream;
    if (!clean || !parser.keep_alive() || parser.need_eof() || state_->cut != Cut::kNone || !stream.socket().is_open())
      return;
    if (stream.tls() && stream.tls()->has_unread()) return;
    error_code error;
    const int fd = stream.socket().release(error);
    if (!error) pool_->put(url_.authority, {fd, v6_, stream.release_tls()});
  }

  static constexpr size_t kChunk = 1 << 16;
  std::shared_ptr<ExchangeState> state_;
  std::shared_ptr<SocketPool> pool_;
  const AsyncRequest& request_;
  const AsyncCallbacks& callbacks_;
  const Url url_;
  bool v6_ = false;
};

}  // namespace

void ExchangeState::close() {
  error_code ignored;
  resolver.cancel();
  stream.socket().close(ignored);
}

awaitable<void> exchange(std::shared_ptr<ExchangeState> state, std::shared_ptr<SocketPool> pool, AsyncRequest request,
                         AsyncCallbacks callbacks) {
  std::optional<Error> error;
  bool head_seen = false;
  try {
    Exchange one(state, std::move(pool), request, callbacks);
    error = co_await one.run(head_seen);
  } catch (const Error& failed) {
    error = failed;
  }
  error_code ignored;
  state->stream.socket().close(ignored);
  state->total_timer.cancel();
  state->step_timer.cancel();
  callbacks.on_done(std::move(error), head_seen);
}

}  // namespace tritonforge::net
