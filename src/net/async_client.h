#pragma once
// HTTP client without a thread per request. What an HttpServer's asynchronous handler sends goes out, and is called
// back, on the thread that this handler runs on: a request that is passed on never changes threads. Everybody else's
// requests have a thread of the client's own. The router's proxy runs on it.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http.h"

namespace tritonforge::net {

struct AsyncRequest {
  std::string method = "GET", url;
  Headers headers;
  std::shared_ptr<const std::string> body;  // null: none; shared, so that a retry copies nothing
  double connect_timeout_s = 5;
  double timeout_s = 60;  // the whole exchange
  // Bytes of the reply's body: one that is longer is kCorrupt. nullopt: its pieces are passed on, and nobody holds
  // them.
  std::optional<uint64_t> longest_reply = kLongestReply;
};

struct AsyncCallbacks {  // all on one thread at a time, in this order
  std::function<void(int status, Headers headers)> on_head;
  std::function<bool(std::string_view bytes)> on_body;  // false hangs up
  // Last call: nullopt = the reply came whole, or on_body hung up, or cancel(). `head_seen`: on_head was called.
  std::function<void(std::optional<Error> error, bool head_seen)> on_done;
};
// Gathers the reply; `done` gets it whole, or the error, or what had come before cancel().
AsyncCallbacks whole_reply(std::function<void(Result<Response> reply)> done);

class AsyncCall {
 public:
  virtual ~AsyncCall() = default;
  // Any thread; on_done follows, with `reason` where there is one, unless it was called already.
  virtual void cancel(std::optional<Error> reason = std::nullopt) = 0;
};

class AsyncClient {
 public:
  // `tls`: its identity; nullopt: the process's own.
  explicit AsyncClient(const std::optional<TlsFiles>& tls = std::nullopt);
  ~AsyncClient();  // cancels what is under way and waits for its callbacks; not on a server's I/O thread
  // Never throws for a bad URL or a dead peer: those come through on_done, after this call returned.
  std::shared_ptr<AsyncCall> send(std::shared_ptr<const AsyncRequest> request, AsyncCallbacks callbacks);
  std::shared_ptr<AsyncCall> send(AsyncRequest request, AsyncCallbacks callbacks) {
    return send(std::make_shared<const AsyncRequest>(std::move(request)), std::move(callbacks));
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::net
