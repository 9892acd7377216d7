#pragma once
// HTTP client without a thread per request: callbacks on I/O threads of its own. The router's proxy runs on it.
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
  double timeout_s = 60;      // the whole exchange; 0: no limit
  double idle_timeout_s = 0;  // without a byte of reply; 0: no limit
};

struct AsyncCallbacks {  // all on one thread at a time, in this order
  std::function<void(int status, const Headers& headers)> on_head;
  std::function<bool(std::string_view bytes)> on_body;  // false hangs up
  // Last call: nullopt = the reply came whole, or on_body hung up, or cancel(). `head_seen`: on_head was called.
  std::function<void(std::optional<Error> error, bool head_seen)> on_done;
};

class AsyncCall {
 public:
  virtual ~AsyncCall() = default;
  virtual void cancel() = 0;  // any thread; on_done follows unless it was called already
};

class AsyncClient {
 public:
  // `tls`: its identity; nullopt: the process's own.
  explicit AsyncClient(int io_threads = 1, const std::optional<TlsFiles>& tls = std::nullopt);
  ~AsyncClient();  // cancels what is under way and waits for its callbacks
  // Never throws for a bad URL or a dead peer: those come through on_done, after this call returned.
  std::shared_ptr<AsyncCall> send(AsyncRequest request, AsyncCallbacks callbacks);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::net
