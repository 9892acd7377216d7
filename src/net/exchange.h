#pragma once
// One request and its reply over a pooled or fresh socket: the coroutine below both clients.
#include "net/asio.h"
#include "net/async_client.h"
#include "net/socket_pool.h"
#include "net/stream.h"

namespace tritonforge::net {

// State that outlives the coroutine's frame: timers and cancel() reach the socket through it, on its executor.
struct ExchangeState {
  explicit ExchangeState(const asio::any_io_executor& executor)
      : stream(tcp::socket(executor)), resolver(executor), total_timer(executor), step_timer(executor) {}
  void close();
  Stream stream;
  tcp::resolver resolver;
  asio::steady_timer total_timer, step_timer;
  enum class Cut { kNone, kTotal, kConnect, kIdle, kCancelled } cut = Cut::kNone;
};

// Runs it to the end and calls on_done. A kept-alive socket that turns out dead is replaced by a fresh one when no
// byte of reply came and repeating is safe: the method is GET or HEAD, or the request had not been written whole.
awaitable<void> exchange(std::shared_ptr<ExchangeState> state, std::shared_ptr<SocketPool> pool, AsyncRequest request,
                         AsyncCallbacks callbacks);

}  // namespace tritonforge::net
