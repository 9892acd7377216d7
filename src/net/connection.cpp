#include "net/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "net/foreign_page.h"
#include "net/key.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

Clock::time_point in_seconds(double seconds) { return Deadline::after(seconds).at(); }

// The part of a Response::error for statuses that no ErrorKind has.
Response error_response(int status, const std::string& message) {
  Response response = Response::error(Error(ErrorKind::kUsage, message));
  response.status = status;
  return response;
}

}  // namespace

struct Connection::Incoming {
  Request request;
  Reply::Framing framing;
  const Route* route = nullptr;
  bool has_refusal = false;  // answered without a handler
  bool body_read = false;
  Response refusal;

  void refuse(Response response) {
    refusal = std::move(response);
    has_refusal = true;
  }
};

Connection::Connection(tcp::socket socket, const ConnectionHost& host, std::function<void(Connection*)> on_gone)
    : farewell_{std::move(on_gone), this},
      stream_(std::move(socket)),
      alarm_(stream_.get_executor(), [this] { rang(); }),
      host_(host),
      chunk_(new char[kChunk]) {}

void Connection::start() {
  asio::co_spawn(
      stream_.get_executor(), [self = shared_from_this()]() -> awaitable<void> { return self->run(); }, asio::detached);
}

void Connection::drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->idle_) self->close();
  });
}

void Connection::abort() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->close(); });
}

void Connection::close() {
  closed_ = true;
  error_code ignored;
  stream_.socket().close(ignored);
  event_.notify();
}

void Connection::rang() {
  if (!wants_input_) return close();
  timed_out_ = true;
  event_.notify();
}

void Connection::start_read() {
  if (reading_ || end_of_input_ || closed_ || input_.size() > kMaxAhead) return;
  reading_ = true;
  stream_.async_read_some(asio::buffer(chunk_.get(), kChunk),
                          [self = shared_from_this()](error_code error, size_t size) { self->on_read(error, size); });
}

void Connection::on_read(error_code error, size_t size) {
  reading_ = false;
  input_.append(chunk_.get(), size);
  if (error) {
    end_of_input_ = true;
    broken_ = error != asio::error::eof;
  }
  if (reply_) {
    if (error) reply_->client_gone();
    else start_read();
  }
  event_.notify();
}

awaitable<bool> Connection::more_input(Clock::time_point deadline) {
  const size_t before = input_.size();
  start_read();
  timed_out_ = false;
  wants_input_ = true;
  alarm_.set(deadline);
  while (input_.size() == before && !end_of_input_ && !closed_ && !timed_out_) co_await event_.wait();
  alarm_.clear();
  wants_input_ = false;
  co_return input_.size() != before;
}

awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  try {
    bool go_on = !host_.tls || co_await shake_hands();
    while (go_on && !closed_) go_on = co_await serve_one();
  } catch (const std::exception& error) {
    log::error("http connection: {}", error.what());
  }
  if (reply_) reply_->client_gone();
  reply_.reset();
  close();
}

// A client that says nothing has the time of a request's head.
awaitable<bool> Connection::shake_hands() {
  idle_ = true;
  if (*host_.draining) co_return false;
  alarm_.set(in_seconds(host_.header_timeout_s));
  tcp::socket& socket = stream_.socket();
  char first = 0;
  ssize_t seen = -1;
  do {  // what another thread has heard of an earlier connection with this descriptor ends the wait, too
    const auto [error] = co_await socket.async_wait(tcp::socket::wait_read, kTuple);
    if (error) co_return false;
    seen = ::recv(socket.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  } while (seen < 0 && (errno == EAGAIN || errno == EINTR));
  if (seen <= 0) co_return false;
  if (first >= 'A' && first <= 'Z') {  // a method of HTTP, not a handshake
    const Response refusal = error_response(400, "this port speaks TLS: write https:// in place of http://");
    Incoming unread;
    unread.framing.keep_alive = false;
    co_await refuse(refusal, unread);
    co_await linger();
    co_return false;
  }
  stream_.set_tls(std::make_unique<TlsSession>(host_.tls, socket.native_handle()));
  const auto [failed, ignored] = co_await stream_.async_handshake(kTuple);
  alarm_.clear();
  idle_ = false;
  if (!failed) co_return true;
  if (const std::string& why = stream_.tls()->failure(); !why.empty()) {
    error_code unknown;
    const auto from = socket.remote_endpoint(unknown);
    log::info("TLS with {}: {}", unknown ? "a client that left" : from.address().to_string(), why);
    stream_.set_tls(nullptr);
    co_await linger();  // the alert says why
  }
  co_return false;
}

awaitable<bool> Connection::serve_one() {
  if (input_.empty()) {
    idle_ = true;
    if (*host_.draining) co_return false;
    const bool came = co_await more_input(in_seconds(host_.idle_timeout_s));
    idle_ = false;
    if (!came) co_return false;
  }
  Incoming incoming;
  if (!co_await read_request(incoming)) co_return false;
  if (incoming.has_refusal) {
    if (!incoming.body_read) incoming.framing.keep_alive = false;
    co_await refuse(incoming.refusal, incoming);
    if (!incoming.body_read) co_await linger();
    co_return incoming.framing.keep_alive && !*host_.draining;
  }
  reply_ = std::make_shared<Reply>(
      incoming.framing,
      // The last word of a handler on this loop is written within its call, not a turn of the loop later; of a stream's
      // pieces those of one turn go out together. A handler may outlive the server, and its loop with it.
      [weak = weak_from_this(), weak_loop = std::weak_ptr(Loop::current())](bool last) {
        const auto loop = weak_loop.lock();
        if (!loop) return;
        auto wake = [weak] {
          if (const auto self = weak.lock()) self->event_.notify();
        };
        if (last) asio::dispatch(loop->io, std::move(wake));
        else asio::post(loop->io, std::move(wake));
      },
      host_.draining);
  if (end_of_input_) reply_->client_gone();
  host_.dispatch(*incoming.route, std::move(incoming.request), std::make_shared<ReplyHandle>(reply_));
  start_read();  // to hear of a client that leaves
  const bool keep = co_await write_reply();
  reply_.reset();
  co_return keep;
}

bool Connection::authorised(const Request& request, bool reads) const {
  if (host_.api_key.empty() || (request.path == "/health" && reads)) return true;
  const auto found = request.headers.find("authorization");
  return found != request.headers.end() && carries_key(found->second, host_.api_key, reads);
}

// The head is whole: who asks, until when, and who answers. A refusal is kept until the body is read, where that is
// short.
void Connection::take_head(Incoming& incoming, const RequestParser& parser) {
  Request& request = incoming.request;
  // What goes to another server is its URL and this target: it must not become a part of the host.
  if (request.target.empty() || request.target[0] != '/') {
    incoming.framing = {fresh_id(), request.method == "HEAD", parser.http_1_0(), parser.keep_alive()};
    incoming.refuse(error_response(400, fmt::format("'{}' is no path: this server is no proxy", request.target)));
    return;
  }
  const size_t question = request.target.find('?');
  request.path = request.target.substr(0, question);
  if (question != std::string::npos) request.query = parse_query(std::string_view(request.target).substr(question + 1));
  const auto id = request.headers.find("x-request-id");
  request.id = id != request.headers.end() && !id->second.empty() && id->second.size() <= 200 ? id->second : fresh_id();
  incoming.framing = {request.id, request.method == "HEAD", parser.http_1_0(), parser.keep_alive()};
  if (const auto timeout = request.headers.find("x-timeout-s"); timeout != request.headers.end()) {
    char* end = nullptr;
    const double seconds = std::strtod(timeout->second.c_str(), &end);
    if (end == timeout->second.c_str() || *end != '\0' || !(seconds > 0) || !std::isfinite(seconds)) {
      incoming.refuse(error_response(400, "x-timeout-s: '" + timeout->second + "' is not a positive number"));
    } else {
      request.deadline = Deadline::after(std::min(seconds, 86400.0 * 7));
    }
  }
  auto match = host_.routes->find(request.method, request.path);
  incoming.route = match.route;
  request.parameters = std::move(match.parameters);
  const auto foreign = host_.api_key.empty() ? foreign_page(request, match.reads) : std::nullopt;
  if (foreign) {
    incoming.refuse(error_response(403, *foreign));
  } else if (!authorised(request, match.reads)) {
    Response refusal = error_response(401, "this server needs its API key: Authorization: Bearer KEY");
    // A browser asks its user for name and password where Basic is asked for; Chromium, where nothing else is.
    refusal.headers["www-authenticate"] = match.reads ? R"(Basic realm="TritonForge")" : "Bearer";
    incoming.refuse(std::move(refusal));
  } else if (!match.route && match.allowed.empty()) {
    incoming.refuse(Response::error(Error(ErrorKind::kNotFound, "no route " + request.method + " " + request.path +
                                                                    host_.routes->nearest(request.path))));
  } else if (!match.route) {
    const std::string allow = fmt::format("{}", fmt::join(match.allowed, ", "));
    Response refusal = request.method == "OPTIONS"
                           ? Response{204, "", "", {}}
                           : error_response(405, fmt::format("{} is not allowed for {} (allowed: {})", request.method,
                                                             request.path, allow));
    refusal.headers["allow"] = allow;
    incoming.refuse(std::move(refusal));
  }
}

// Reads head and body. False: the connection is of no more use (closed, or refused here for good).
awaitable<bool> Connection::read_request(Incoming& incoming) {
  Request& request = incoming.request;
  RequestParser parser(request, host_.max_body);
  Clock::time_point deadline = in_seconds(host_.header_timeout_s);
  Clock::time_point body_begun{};
  bool head_seen = false;
  while (!parser.is_done()) {
    // Parse what is there.
    error_code error;
    const size_t used = input_.empty() ? 0 : parser.put(asio::buffer(input_), error);
    input_.erase(0, used);
    if (error && error != http::error::need_more) {
      const int status = error == http::error::body_limit ? 413 : error == http::error::header_limit ? 431 : 400;
      incoming.refuse(error_response(
          status, status == 413   ? fmt::format("the request body is larger than {} bytes", host_.max_body)
                  : status == 431 ? fmt::format("the request's headers are larger than {} bytes", kMaxHead)
                                  : "malformed request: " + error.message()));
      co_return true;
    }
    if (!head_seen && parser.is_header_done()) {
      head_seen = true;
      take_head(incoming, parser);
      // The body: its own deadline, no waiting for a long one that will be refused, "100 Continue" for who asks.
      body_begun = Clock::now();
      const auto length = parser.content_length();
      if (!parser.is_done() && incoming.has_refusal && (!length || *length > (1 << 20))) co_return true;
      const auto expects = request.headers.find("expect");
      if (!parser.is_done() && !parser.http_1_0() && expects != request.headers.end() &&
          lowered(expects->second) == "100-continue") {
        if (incoming.has_refusal) co_return true;
        if (!co_await write_text("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
      }
      continue;
    }
    // More bytes, or the end of patience.
    if (parser.is_done() || (used > 0 && !input_.empty())) continue;
    if (head_seen) {  // 64 KiB/s at least, of what is announced or, in chunks, of what has come
      const auto bytes = static_cast<double>(parser.content_length().value_or(request.body.size()));
      deadline = in_seconds(host_.stall_timeout_s + bytes / 65536 - seconds_since(body_begun));
    }
    if (co_await more_input(deadline)) continue;
    if (timed_out_) {
      incoming.refuse(error_response(408, head_seen ? "the request's body did not arrive in time"
                                                    : "the request's headers did not arrive in time"));
      co_return true;
    }
    co_return false;
  }
  incoming.body_read = true;
  co_return true;
}

awaitable<void> Connection::refuse(const Response& response, const Incoming& incoming) {
  const auto& framing = incoming.framing;
  const bool keep_alive = framing.keep_alive && !*host_.draining;
  std::string text = response_head(response.status, response.content_type, response.headers,
                                   static_cast<long long>(response.body.size()), framing.request_id, keep_alive,
                                   framing.http_1_0);
  if (!framing.head_only) text += response.body;
  co_await write_text(text);
}

// Lets a client that is still sending read the refusal: closing at once would reset the connection under it.
awaitable<void> Connection::linger() {
  error_code ignored;
  stream_.say_end();
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  const auto deadline = in_seconds(2);
  size_t drained = 0;
  while (drained < (size_t{64} << 20)) {
    drained += input_.size();
    input_.clear();
    if (!co_await more_input(deadline)) break;
  }
}

awaitable<bool> Connection::write_reply() {
  std::vector<asio::const_buffer> pieces;
  for (;;) {
    const Reply::Output output = reply_->take();
    if (!output.pieces.empty()) {
      pieces.clear();
      for (const std::string& piece : output.pieces) pieces.push_back(asio::buffer(piece));
      if (!co_await write_all(pieces)) {
        reply_->client_gone();
        co_return false;
      }
    }
    if (output.finished) {
      if (!output.cut && !output.keep_alive) stream_.say_end();
      co_return !output.cut && output.keep_alive;
    }
    if (!output.pieces.empty()) continue;
    if (closed_ || broken_) {
      reply_->client_gone();
      co_return false;
    }
    co_await event_.wait();
  }
}

// What the socket takes at once costs no turn of the loop; for the rest the peer has its time for each part of it.
awaitable<bool> Connection::write_all(std::span<asio::const_buffer> pieces) {
  error_code error;
  const size_t bytes = asio::buffer_size(pieces);
  stream_.write_now(pieces, error);
  if (reply_) reply_->written(bytes - asio::buffer_size(pieces));
  while (!error && !pieces.empty()) {
    asio::const_buffer& piece = pieces.front();
    const auto part = asio::buffer(piece, kMaxPart);
    alarm_.set(in_seconds(host_.stall_timeout_s));
    error = std::get<0>(co_await asio::async_write(stream_, part, kTuple));
    if (reply_) reply_->written(part.size());
    piece += part.size();
    if (piece.size() == 0) pieces = pieces.subspan(1);
  }
  alarm_.clear();
  co_return !error;
}

awaitable<bool> Connection::write_text(std::string_view text) {
  asio::const_buffer piece = asio::buffer(text);
  co_return co_await write_all(std::span(&piece, 1));
}

}  // namespace tritonforge::net
