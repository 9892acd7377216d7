#pragma once
// One accepted socket: a coroutine that reads requests, hands them out and writes their replies, on one loop's thread.
//
// One read is always pending while a reply is awaited, so a client that leaves is seen at once; what it brings
// belongs to the next request.
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "net/loop.h"
#include "net/message_parser.h"
#include "net/reply.h"
#include "net/routes.h"
#include "net/stream.h"

namespace tritonforge::net {

// What a connection needs of its server.
struct ConnectionHost {
  size_t max_body = 0;
  std::string api_key;
  TlsContextPtr tls;  // null: plain
  double idle_timeout_s = 75, header_timeout_s = 15, stall_timeout_s = 60;
  std::shared_ptr<std::atomic<bool>> draining;
  const RouteTable* routes = nullptr;
  std::function<void(const Route&, Request, std::shared_ptr<ReplyHandle>)> dispatch;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `on_gone` is called when the last reference goes.
  Connection(tcp::socket socket, const ConnectionHost& host, std::function<void(Connection*)> on_gone);
  void start();
  void drain();  // closes it if it is idle; any thread
  void abort();  // closes it; any thread

 private:
  struct Incoming;
  awaitable<void> run();
  awaitable<bool> shake_hands();  // TLS's; false: the connection is of no use
  awaitable<bool> serve_one();
  // Waits until more input came. False at the end of the input, on close, or past the deadline (timed_out_).
  awaitable<bool> more_input(Clock::time_point deadline);
  awaitable<bool> read_request(Incoming& incoming);
  void take_head(Incoming& incoming, const RequestParser& parser);
  awaitable<bool> write_reply();
  awaitable<bool> write_all(std::span<asio::const_buffer> pieces);
  awaitable<bool> write_text(std::string_view text);
  awaitable<void> refuse(const Response& response, const Incoming& incoming);
  awaitable<void> linger();
  void start_read();
  void on_read(error_code error, size_t size);
  void close();
  void rang();
  bool authorised(const Request& request, bool reads) const;

  // First member, so that it speaks last: until then the server must not let go of the io_context.
  struct Farewell {
    std::function<void(Connection*)> say;
    Connection* self;
    ~Farewell() { say(self); }
  } farewell_;
  static constexpr size_t kChunk = 1 << 16, kMaxAhead = 1 << 18, kMaxPart = 1 << 20;
  Stream stream_;
  Signal event_;
  Alarm alarm_;
  const ConnectionHost& host_;
  std::unique_ptr<char[]> chunk_;
  std::string input_;
  bool reading_ = false, end_of_input_ = false, broken_ = false, closed_ = false, timed_out_ = false, idle_ = false;
  bool wants_input_ = false;  // the alarm ends a wait for input; otherwise the connection
  std::shared_ptr<Reply> reply_;
};

}  // namespace tritonforge::net
