#pragma once
// One request and its reply over a kept or fresh connection: the coroutine below both clients.
#include "net/async_client.h"
#include "net/socket_pool.h"

namespace tritonforge::net {

// What reaches an exchange from outside of its coroutine, on its loop: a cancel and its deadlines.
class ExchangeState final : public Loop::Task, private ClientSocket::Listener {
 public:
  enum class Cut { kNone, kTotal, kConnect, kCancelled };
  explicit ExchangeState(const asio::any_io_executor& given) : executor(given) {}
  void cancel() override { cut_off(Cut::kCancelled); }
  void cancel_for(const std::optional<Error>& reason);
  void end_within(double seconds);  // of the whole exchange
  void connect_within(double seconds);
  void connected();
  void use(std::unique_ptr<ClientSocket> fresh);  // the deadlines hold for it, too
  std::unique_ptr<ClientSocket> release();
  Cut cut() const { return cut_; }
  const std::optional<Error>& reason() const { return reason_; }  // for which it was cancelled

  const asio::any_io_executor executor;
  std::unique_ptr<ClientSocket> socket;
  std::shared_ptr<Lookup::Waiter> lookup;  // what it waits for, if it does

 private:
  void cut_off(Cut reason);
  void rang() override;
  void watch() {
    if (socket) socket->alarm.set(std::min(end_, connect_end_));
  }
  Clock::time_point end_ = Clock::time_point::max(), connect_end_ = Clock::time_point::max();
  Cut cut_ = Cut::kNone;
  std::optional<Error> reason_;
};

// Runs it to the end and calls on_done. A kept-alive connection that turns out dead is replaced by a fresh one when no
// byte of reply came and repeating is safe: the method is GET or HEAD, or the request had not been written whole. The
// caller keeps `request`.
awaitable<void> exchange(std::shared_ptr<ExchangeState> state, std::shared_ptr<SocketPool> pool,
                         const AsyncRequest& request, AsyncCallbacks callbacks);

}  // namespace tritonforge::net
